// All of a model from its files.
#include "capture/model/model.h"

#include "capture/model/family.h"
#include "capture/model/model_file.h"
#include "capture/model/model_tokenizer.h"
#include "core/base/error.h"
#include "core/device/torch_device.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <future>
#include <utility>

namespace kvloupe::capture {
namespace {

void move(at::Tensor& weight, c10::Device device) {
  if (!weight.defined() || weight.device() == device) return;
  weight = (weight.is_mkldnn() ? weight.to_dense() : weight).to(device);
}

void move(FeedForward& ffn, c10::Device device) {
  for (at::Tensor* weight : {&ffn.gate_up_proj, &ffn.gate_up_bias, &ffn.down_proj, &ffn.down_bias})
    move(*weight, device);
}

// Gemma 3's vocabulary has a token for images that its models of text have no row for: as control
// tokens such are none of a text's, and a capture refuses a prompt that has them.
void require_rows_for_text(const ModelSource& source, const Tokenizer& tokenizer) {
  const std::int64_t rows = token_embedding_of(source).shape.front();
  if (tokenizer.text_vocab_size() > rows)
    throw damaged(source, fmt::format("its tokenizer has {} tokens, its embedding {}",
                                      tokenizer.text_vocab_size(), rows));
}

}  // namespace

void move_to(LayerWeights& weights, c10::Device device) {
  for (at::Tensor* weight :
       {&weights.attn_norm, &weights.qkv_proj, &weights.qkv_bias, &weights.q_norm, &weights.k_norm,
        &weights.o_proj, &weights.o_bias, &weights.after_attn_norm, &weights.ffn_norm,
        &weights.router, &weights.router_bias, &weights.after_ffn_norm})
    move(*weight, device);
  move(weights.ffn, device);
  for (FeedForward& expert : weights.experts) move(expert, device);
}

void move_to(LoadedModel& model, c10::Device device) {
  const bool tied = model.output.is_same(model.token_embedding);
  move(model.token_embedding, device);
  if (tied) model.output = model.token_embedding;
  move(model.output, device);
  move(model.output_norm, device);
  for (LayerWeights& layer : model.layers) move_to(layer, device);
}

std::string bundled_model_hash() {
  const std::filesystem::path path = bundled_file();
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? open_model(path)->hash() : std::string();
}

c10::Device device_for_model(const std::string& name) {
  if (name.find(',') != std::string::npos)
    throw usage_error(fmt::format("'{}' names several devices", name),
                      "the layers of a model are not spread over several GPUs",
                      "name one that holds it all, as in --device cuda:0");
  return device::torch_device(name);
}

std::shared_ptr<const LoadedModel> load_model(const std::string& name_or_path, ComputeType compute,
                                              c10::Device device) {
  const std::unique_ptr<ModelSource> source = open_model(path_of_model(name_or_path));
  ModelConfig config = read_config(*source);
  Tokenizer tokenizer = read_tokenizer(*source);
  require_rows_for_text(*source, tokenizer);
  check_memory(*source, compute, device);
  // Not before: who refuses a model would wait until all of it was hashed.
  auto hash = std::async(std::launch::async, [&source] { return source->hash(); });
  std::shared_ptr<LoadedModel> model = load_weights(*source, std::move(config), compute, device);
  if (name_or_path == kBundledModel) model->info.name = kBundledTitle;
  model->tokenizer = std::move(tokenizer);
  model->info.file_hash = hash.get();
  source->require_whole();
  return model;
}

}  // namespace kvloupe::capture
