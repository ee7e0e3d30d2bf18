// Which model a name means, and all of it from its files.
#include "capture/model/model.h"

#include "capture/model/model_file.h"
#include "capture/model/model_tokenizer.h"
#include "core/base/error.h"
#include "core/base/paths.h"

#include <fmt/format.h>

#include <future>
#include <utility>

namespace kvloupe::capture {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBundledTitle = "SmolLM2-135M-Instruct";
constexpr std::string_view kBundledFile = "SmolLM2-135M-Instruct.Q4_1.gguf";

fs::path bundled_file() { return paths::data_dir() / "models" / kBundledFile; }

fs::path bundled_path() {
  fs::path path = bundled_file();
  if (!fs::exists(path)) {
    throw input_error("cannot load the model smollm2",
                      fmt::format("the set-up has not put {} in place", path.string()),
                      "run ./kvloupe.sh once, which fetches it");
  }
  return path;
}

fs::path model_path(const std::string& name_or_path) {
  return name_or_path == kBundledModel ? bundled_path() : fs::path(name_or_path);
}

}  // namespace

fs::path file_of_model(const std::string& name_or_path) {
  return name_or_path == kBundledModel ? bundled_file() : fs::path(name_or_path);
}

std::string bundled_model_hash() {
  const fs::path path = bundled_file();
  std::error_code ignored;
  return fs::exists(path, ignored) ? open_model(path)->hash() : std::string();
}

std::shared_ptr<const LoadedModel> load_model(const std::string& name_or_path) {
  const std::unique_ptr<ModelSource> source = open_model(model_path(name_or_path));
  auto hash = std::async(std::launch::async, [&source] { return source->hash(); });
  ModelConfig config = read_config(*source);
  Tokenizer tokenizer = read_tokenizer(*source);
  std::shared_ptr<LoadedModel> model = load_weights(*source, std::move(config));
  if (name_or_path == kBundledModel) model->info.name = kBundledTitle;
  if (tokenizer.vocab_size() > model->vocab_size)
    throw damaged(*source, fmt::format("its tokenizer has {} tokens, its embedding {}",
                                       tokenizer.vocab_size(), model->vocab_size));
  model->tokenizer = std::move(tokenizer);
  model->info.file_hash = hash.get();
  source->require_whole();
  return model;
}

}  // namespace kvloupe::capture
