// Models in the folders of other programs: found by name, looked at, and refused where they are damaged.
#include "capture/model/model_library.h"
#include "tests/base/matchers.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace kvloupe::capture {
namespace {

namespace fs = std::filesystem;

const fs::path kModels = fs::path(KVLOUPE_TEST_SOURCE_DIR).parent_path() / "data/models";

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

class Library : public ::testing::Test {
 protected:
  Library() {
    fs::remove_all("caches");
    const fs::path qwen = folders.hugging_face / "models--org--my--model";
    write(qwen / "refs/main", "c2\n");
    write(qwen / "snapshots/c1/config.json", "{}");
    for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"}) {
      fs::create_directories(qwen / "snapshots/c2");
      fs::copy_file(kModels / "qwen3" / file, qwen / "snapshots/c2" / file);
    }
    write(folders.hugging_face / "models--org--half/snapshots/c/config.json",
          R"({"model_type": "qwen3"})");
    write(folders.hugging_face / "models--org--mamba/snapshots/c/config.json", "noise");
    fs::create_directories(folders.llama_cpp);
    fs::copy_file(kModels / "llama/model.gguf", folders.llama_cpp / "tiny.gguf");
    write(folders.ollama / "blobs/sha256-12", "noise");
    fs::copy_file(kModels / "gpt_oss/model.gguf", folders.ollama / "blobs/sha256-34");
    const auto manifest = [](const std::string& digest) {
      return R"({"layers": [{"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:0"},
                {"mediaType": "application/vnd.ollama.image.model", "digest": ")" +
             digest + R"("}]})";
    };
    const fs::path registry = folders.ollama / "manifests/registry.ollama.ai";
    write(registry / "library/oss/latest", manifest("sha256:34"));
    write(registry / "someone/broken/7b", manifest("sha256:12"));
    write(registry / "library/outside/latest", manifest("../../../../etc/passwd"));
    write(registry / "library/noise/latest", "[[[");
  }

  const FoundModel* find(const std::vector<FoundModel>& models, const std::string& name) const {
    const auto found = std::find_if(models.begin(), models.end(),
                                    [&](const FoundModel& model) { return model.name == name; });
    return found == models.end() ? nullptr : &*found;
  }

  const ModelFolders folders{"caches/hf", "caches/llama.cpp", "caches/ollama", "caches/none"};
};

TEST_F(Library, ListsWhatEachFolderHolds) {
  const auto models = find_models(folders);
  const FoundModel* qwen = find(models, "org/my/model");
  ASSERT_NE(qwen, nullptr);
  EXPECT_EQ(qwen->family, "qwen3");
  EXPECT_EQ(qwen->title, "model") << "as its traces call it";
  EXPECT_EQ(qwen->refusal, "");
  EXPECT_EQ(qwen->num_layers, 3);
  EXPECT_EQ(qwen->num_q_heads, 4);
  EXPECT_EQ(qwen->num_kv_heads, 2);
  EXPECT_GT(qwen->bytes, 50000U);
  EXPECT_EQ(qwen->path.filename(), "c2") << "the snapshot of refs/main";
  ASSERT_NE(find(models, "tiny.gguf"), nullptr);
  EXPECT_EQ(find(models, "tiny.gguf")->family, "llama");
  EXPECT_EQ(find(models, "tiny.gguf")->title, "tiny");
  ASSERT_NE(find(models, "oss:latest"), nullptr);
  EXPECT_EQ(find(models, "oss:latest")->family, "gpt_oss");
}

TEST_F(Library, SaysWhyOneCannotRun) {
  const auto models = find_models(folders);
  ASSERT_NE(find(models, "org/half"), nullptr);
  EXPECT_THAT(find(models, "org/half")->refusal, HasSubstr("model.safetensors"));
  ASSERT_NE(find(models, "org/mamba"), nullptr);
  EXPECT_THAT(find(models, "org/mamba")->refusal, HasSubstr("config.json"));
  ASSERT_NE(find(models, "someone/broken:7b"), nullptr);
  EXPECT_THAT(find(models, "someone/broken:7b")->refusal, HasSubstr("GGUF"));
  EXPECT_EQ(find(models, "outside:latest"), nullptr) << "a manifest leads nowhere else";
}

TEST_F(Library, AQuantisedFolderIsListedWithItsMethod) {
  write(folders.hugging_face / "models--org--packed/snapshots/c/config.json",
        R"({"model_type": "qwen3", "quantization_config": {"quant_method": "gptq"}})");
  const auto models = find_models(folders);
  ASSERT_NE(find(models, "org/packed"), nullptr);
  EXPECT_THAT(find(models, "org/packed")->refusal, HasSubstr("gptq"));
}

TEST_F(Library, AModelInPartsIsListedOnce) {
  for (const char* part : {"big-00001-of-00002.gguf", "big-00002-of-00002.gguf"})
    fs::copy_file(kModels / "llama/model.gguf", folders.llama_cpp / part);
  const auto models = find_models(folders);
  EXPECT_NE(find(models, "big-00001-of-00002.gguf"), nullptr);
  EXPECT_EQ(find(models, "big-00002-of-00002.gguf"), nullptr);
}

TEST_F(Library, FindsByName) {
  EXPECT_EQ(find_model(folders, "org/my/model")->filename(), "c2");
  EXPECT_EQ(find_model(folders, "oss")->filename(), "sha256-34");
  EXPECT_EQ(find_model(folders, "tiny.gguf")->filename(), "tiny.gguf");
  EXPECT_FALSE(find_model(folders, "org/other"));
  EXPECT_TRUE(find_models({"no", "such", "folders", "here"}).size() <= 1) << "that of the set-up";
}

TEST_F(Library, ListsAModelThatTheSetUpFetchedByName) {
  EXPECT_EQ(find(find_models(folders), "gemma3-270m"), nullptr) << "it was not fetched";
  ModelFolders fetched = folders;
  fetched.fetched = "caches/models";
  fs::create_directories(fetched.fetched);
  fs::copy_file(kModels / "gemma3_text/model.gguf", fetched.fetched / "gemma-3-270m-q4_k_m.gguf");
  const auto models = find_models(fetched);
  const FoundModel* gemma = find(models, "gemma3-270m");
  ASSERT_NE(gemma, nullptr);
  EXPECT_EQ(gemma->place, "set-up");
  EXPECT_EQ(gemma->path, fetched.fetched / "gemma-3-270m-q4_k_m.gguf");
  EXPECT_EQ(gemma->family, "gemma3");
}

}  // namespace
}  // namespace kvloupe::capture
