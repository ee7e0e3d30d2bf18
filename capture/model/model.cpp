// All of a model from its files.
#include "capture/model/model.h"

#include "capture/model/model_file.h"
#include "capture/model/model_tokenizer.h"
#include "core/base/error.h"

#include <fmt/format.h>

#include <future>
#include <utility>

namespace kvloupe::capture {
namespace {

constexpr std::string_view kBundledTitle = "SmolLM2-135M-Instruct";
}  // namespace

std::string bundled_model_hash() {
  const std::filesystem::path path = bundled_file();
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? open_model(path)->hash() : std::string();
}

std::shared_ptr<const LoadedModel> load_model(const std::string& name_or_path,
                                              ComputeType compute) {
  const std::unique_ptr<ModelSource> source = open_model(path_of_model(name_or_path));
  auto hash = std::async(std::launch::async, [&source] { return source->hash(); });
  ModelConfig config = read_config(*source);
  Tokenizer tokenizer = read_tokenizer(*source);
  std::shared_ptr<LoadedModel> model = load_weights(*source, std::move(config), compute);
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
