// Gemma 3, its text part (arXiv 2503.19786): norms around attention and feed-forward, norms of each
// query and key head, five layers with a window and an embedding of their own to one without.
#include "capture/model/family.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace kvloupe::capture {
namespace {

constexpr double kLocalTheta = 10000;  // where the file does not tell
// Where config.json does not: Gemma3TextConfig of transformers. The published 4B's has little more than sizes.
constexpr int kHeadDim = 256;
constexpr std::int64_t kWindow = 4096;
constexpr Family::Unsaid kUnsaid = {8, 4, kHeadDim, 131072, 1e6};

bool is_full(int layer, std::int64_t pattern) { return (layer + 1) % pattern == 0; }

void configure(const ModelSource& source, ModelConfig& model) {
  const bool gguf = source.format() == ModelSource::Format::Gguf;
  model.qk_norm = QkNorm::EachHead;
  model.norms_after = true;
  model.activation = Activation::GeluTanh;
  model.embedding_scale = std::sqrt(static_cast<double>(model.info.hidden_size));
  model.norm_offset = gguf ? 0.0F : 1.0F;  // GGUF files hold the sum
  // GGUF files do not tell the scale: all sizes but the largest go by the head, that one by its share
  // of the model.
  constexpr int kLayersOfTheLargest = 62;
  const double scalar = gguf && model.info.num_layers == kLayersOfTheLargest
                            ? static_cast<double>(model.info.hidden_size) / model.info.num_q_heads
                            : positive_real(source, {"", "query_pre_attn_scalar"},
                                            gguf ? model.info.head_dim : kHeadDim);
  model.info.softmax_scale = 1 / std::sqrt(scalar);
  if (source.real({"attn_logit_softcapping", "attn_logit_softcapping"}).value_or(0) != 0 ||
      source.real({"final_logit_softcapping", "final_logit_softcapping"}).value_or(0) != 0)
    throw unsupported(source, "a softcap in Gemma 3 is not implemented");

  if (flag(source, {"", "use_bidirectional_attention"}, false))
    throw unsupported(source, "attention to later tokens is not implemented");
  const std::string local_kind =
      source.text({"", "rope_parameters.sliding_attention.rope_type"}).value_or("default");
  if (local_kind != "default")
    throw unsupported(source, fmt::format("RoPE scaling \"{}\" of its layers with a window is not "
                                          "implemented",
                                          local_kind));
  const Key of_window{"attention.sliding_window", "sliding_window"};
  const std::int64_t window =
      gguf ? required_size(source, of_window) : size_or(source, of_window, kWindow);
  if (!windows_by_layer_types(source, model, window)) {
    const std::int64_t pattern =
        size_or(source, {"attention.sliding_window_pattern", "sliding_window_pattern"}, 6);
    for (int layer = 0; layer < model.info.num_layers; ++layer)
      if (!is_full(layer, pattern)) set_window(model, layer, window);
  }
  RopeForm local;
  local.theta =
      positive_real(source, {"rope.freq_base_swa", "rope_parameters.sliding_attention.rope_theta"},
                    positive_real(source, {"", "rope_local_base_freq"}, kLocalTheta));
  model.ropes.push_back(local);
  for (std::size_t layer = 0; layer < model.rope_of_layer.size(); ++layer)
    if (model.info.layer_types[layer] == trace::LayerType::Sliding) model.rope_of_layer[layer] = 1;
}

}  // namespace

void family_gemma3(Family& family) {
  family.hugging_face = {"gemma3_text", "gemma3"};
  family.names = {
      {Role::AfterAttentionNorm, "blk.{}.post_attention_norm",
       "model.layers.{}.post_attention_layernorm"},
      {Role::FeedForwardNorm, "blk.{}.ffn_norm", "model.layers.{}.pre_feedforward_layernorm"},
      {Role::AfterFeedForwardNorm, "blk.{}.post_ffw_norm",
       "model.layers.{}.post_feedforward_layernorm"}};
  family.configure = configure;
  family.unsaid = kUnsaid;
}

}  // namespace kvloupe::capture
