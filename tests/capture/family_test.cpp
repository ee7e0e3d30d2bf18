// Every model family on a tiny random model against what transformers computes of the same folder
// (tests/tools/make_tiny_models.py): queries, keys and values as they enter attention, its output, the
// logits; at once, in chunks, and decoded.
#include "capture/model/family.h"
#include "capture/model/decoder.h"
#include "capture/model/model.h"
#include "core/base/safetensors.h"
#include "core/trace/fields/trace_names.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace kvloupe::capture {
namespace {

namespace fs = std::filesystem;

const fs::path kModels = fs::path(KVLOUPE_TEST_SOURCE_DIR).parent_path() / "data/models";

class Golden {
 public:
  explicit Golden(const fs::path& file) : file_(file, "make it anew"), path_(file) {}

  at::Tensor tensor(const std::string& name) const {
    const auto& entry = file_.entries().at(name);
    return at::tensor(file_.read(name)).view(entry.shape);
  }
  std::vector<std::int32_t> ids(const std::string& name) const {
    const auto& entry = file_.entries().at(name);
    EXPECT_EQ(entry.dtype, "I32");
    std::vector<std::int32_t> ids(static_cast<std::size_t>(entry.count()));
    std::ifstream stream(path_, std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(file_.data_begin() + entry.begin));
    stream.read(reinterpret_cast<char*>(ids.data()),
                static_cast<std::streamsize>(entry.end - entry.begin));
    return ids;
  }

 private:
  SafetensorsFile file_;
  fs::path path_;
};

struct Seen {
  at::Tensor q, k, v, output;
};

// Dense attention that remembers what it saw of a forward pass.
class Watching final : public AttentionHook {
 public:
  at::Tensor attend(const AttentionCall& call) override {
    at::Tensor output = DenseAttention().attend(call);
    seen[call.layer] = {call.q.clone(), call.k.clone(), call.v.clone(), output.clone()};
    return output;
  }
  std::map<int, Seen> seen;
};

double largest(const at::Tensor& tensor) { return tensor.abs().max().item<double>(); }

void expect_near(const at::Tensor& ours, const at::Tensor& theirs, const std::string& what) {
  ASSERT_EQ(ours.sizes(), theirs.sizes()) << what;
  EXPECT_LE(largest(ours - theirs), 1e-4 * largest(theirs)) << what;
}

class EachFamily : public ::testing::TestWithParam<std::string> {
 protected:
  EachFamily()
      : model(load(*open_model(kModels / GetParam()))),
        golden(kModels / GetParam() / "golden.safetensors"),
        ids(golden.ids("input_ids")) {}

  static std::shared_ptr<const LoadedModel> load(const ModelSource& source,
                                                 ComputeType compute = ComputeType::Fp32) {
    return load_weights(source, read_config(source), compute);
  }
  Decoder decoder() const { return Decoder(model, {static_cast<std::int64_t>(ids.size()) + 8}); }

  // What does not depend on the order of channels in queries and keys: values, what attention makes of
  // them, logits. Gives what was seen.
  std::map<int, Seen> expect_prefill() {
    Decoder decoder = this->decoder();
    Watching watching;
    at::Tensor earlier;
    const at::Tensor last = decoder.forward(ids, watching, true, &earlier);
    for (int layer = 0; layer < model->info.num_layers; ++layer) {
      const Seen& seen = watching.seen.at(layer);
      const std::string name = fmt::format("layers.{}.", layer);
      expect_near(seen.v, golden.tensor(name + "v"), name + "v");
      const at::Tensor attention = golden.tensor(name + "attention");
      expect_near(seen.output.transpose(0, 1).reshape(attention.sizes()), attention, name);
    }
    expect_near(at::cat({decoder.logits_of(earlier), last.unsqueeze(0)}), golden.tensor("logits"),
                "logits");
    return watching.seen;
  }

  std::shared_ptr<const LoadedModel> model;
  Golden golden;
  std::vector<std::int32_t> ids;
};

TEST_P(EachFamily, WholePrefillIsThatOfTransformers) {
  const auto seen = expect_prefill();
  for (int layer = 0; layer < model->info.num_layers; ++layer) {
    const std::string name = fmt::format("layers.{}.", layer);
    expect_near(seen.at(layer).q, golden.tensor(name + "q"), name + "q");
    expect_near(seen.at(layer).k, golden.tensor(name + "k"), name + "k");
  }
}

TEST_P(EachFamily, ChunksAndDecodedTokensAreThoseOfTransformers) {
  Decoder decoder = this->decoder();
  DenseAttention dense;
  const at::Tensor chunked = golden.tensor("chunked_logits");
  const std::span<const std::int32_t> all(ids);
  at::Tensor logits;
  for (std::size_t begin = 0; begin < ids.size(); begin += 16) {
    const std::size_t count = std::min<std::size_t>(16, ids.size() - begin);
    logits = decoder.forward(all.subspan(begin, count), dense);
    expect_near(logits, chunked[static_cast<std::int64_t>(begin + count) - 1], "chunk");
  }
  const std::vector<std::int32_t> decoded = golden.ids("decode_ids");
  const at::Tensor steps = golden.tensor("decode_logits");
  for (std::size_t step = 0; step < decoded.size(); ++step) {
    EXPECT_EQ(logits.argmax().item<std::int64_t>(), decoded[step]) << step;
    logits = decoder.forward({&decoded[step], 1}, dense);
    expect_near(logits, steps[static_cast<std::int64_t>(step)], "step");
  }
}

// The same weights as llama.cpp names and orders them (tests/tools/make_tiny_ggufs.py). Queries and keys
// may lie in another order there, so what they make of the values is compared.
TEST_P(EachFamily, GgufFilesOfItComputeTheSame) {
  const fs::path file = kModels / GetParam() / "model.gguf";
  if (!fs::exists(file)) {
    ASSERT_EQ(GetParam(), "mistral") << "its GGUF files are llama's";
    return;
  }
  model = load(*open_model(file));
  expect_prefill();
}

// Rounding to 8 or 11 binary digits in every product shows in the logits as it does in transformers,
// which loaded in these types is within 0.055 and 0.0084 of its own fp32.
TEST_P(EachFamily, OtherComputeTypesAreNearIt) {
  const at::Tensor golden_logits = golden.tensor("logits");
  for (const auto& [compute, most] :
       {std::pair{ComputeType::Bf16, 0.06}, {ComputeType::Fp16, 0.01}}) {
    model = load(*open_model(kModels / GetParam()), compute);
    EXPECT_EQ(model->info.compute, compute);
    Decoder decoder = this->decoder();
    DenseAttention dense;
    at::Tensor earlier;
    const at::Tensor last = decoder.forward(ids, dense, true, &earlier);
    const at::Tensor logits = at::cat({decoder.logits_of(earlier), last.unsqueeze(0)});
    const double error = largest(logits - golden_logits) / largest(golden_logits);
    EXPECT_GT(error, 1e-5) << trace::to_text(compute);
    EXPECT_LT(error, most) << trace::to_text(compute);
  }
}

std::vector<std::string> folders() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kModels))
    if (fs::exists(entry.path() / "golden.safetensors"))
      names.push_back(entry.path().filename().string());
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, EachFamily, ::testing::ValuesIn(folders()),
                         [](const auto& name) { return name.param; });

// Each family has a model here: a new one is not without a test.
TEST(Families, AreAllTested) {
  const std::vector<std::string> names = folders();
  for (const Family& family : families()) {
    const bool tested = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return std::find(family.hugging_face.begin(), family.hugging_face.end(), name) !=
             family.hugging_face.end();
    });
    EXPECT_TRUE(tested) << family.id;
  }
}

}  // namespace
}  // namespace kvloupe::capture
