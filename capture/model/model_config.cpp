#include "capture/model/model_config.h"

#include "capture/model/family.h"
#include "capture/model/rope.h"

#include <fmt/format.h>

#include <cmath>

namespace kvloupe::capture {
namespace {

// What a trace can be of (FORMAT.md, section 10). For more, room would be taken layer by layer before a tensor is missed.
constexpr int kMostLayers = 4096, kMostHeads = 65536;

void check_heads(const ModelSource& source, const trace::ModelInfo& info) {
  if (info.num_q_heads % info.num_kv_heads != 0)
    throw damaged(source, fmt::format("its {} query heads do not share {} KV heads evenly",
                                      info.num_q_heads, info.num_kv_heads));
  if (info.head_dim < 2 || info.head_dim % 2 != 0)
    throw damaged(source, fmt::format("its head dimension is {}, not even", info.head_dim));
  const std::int64_t value_dim =
      source.integer({"attention.value_length", "v_head_dim"}).value_or(info.head_dim);
  const std::int64_t rope_dim =
      source.integer({"rope.dimension_count", ""}).value_or(info.head_dim);
  if (value_dim != info.head_dim || rope_dim != info.head_dim)
    throw unsupported(source, fmt::format("its heads have {} key, {} value and {} rotated "
                                          "dimensions; only equal numbers are implemented",
                                          info.head_dim, value_dim, rope_dim));
  if (source.real({"", "partial_rotary_factor"}).value_or(1) != 1)
    throw unsupported(source, "a rotary embedding of some channels alone is not implemented");
}

// Each family has one; a configuration that names another is not that family's.
void check_activation(const ModelSource& source, Activation ours) {
  const std::string wanted = ours == Activation::GeluTanh ? "gelu_pytorch_tanh" : "silu";
  for (const Key& key : {Key{"", "hidden_activation"}, Key{"", "hidden_act"}})
    if (const auto named = source.text(key); named && *named != wanted)
      throw unsupported(source, fmt::format("its activation \"{}\" is not implemented", *named));
  if (ours == Activation::ClampedSwish &&
      (source.real({"", "swiglu_limit"}).value_or(7) != 7 ||
       source.real({"", "swiglu_alpha"}).value_or(1.702) != 1.702))
    throw unsupported(source, "its activation with another limit or slope is not implemented");
}

}  // namespace

SoftmaxForm& shaped_softmax(ModelConfig& model, int layer) {
  return model.info.shaped_softmax.try_emplace(layer, SoftmaxForm(model.info.softmax_scale))
      .first->second;
}

ModelConfig read_config(const ModelSource& source) {
  const Family& family = family_of(source);
  ModelConfig model;
  trace::ModelInfo& info = model.info;
  const auto size = [&](const Key& key) { return static_cast<int>(required_size(source, key)); };
  info.architecture = family.id;
  info.name = source.name();
  info.num_layers = size({"block_count", "num_hidden_layers"});
  const Family::Unsaid unsaid =
      source.format() == ModelSource::Format::Gguf ? Family::Unsaid() : family.unsaid;
  const auto said_or = [&](const Key& key, std::int64_t fallback) {
    return fallback > 0 ? size_or(source, key, fallback) : required_size(source, key);
  };
  info.num_q_heads = static_cast<int>(
      said_or({"attention.head_count", "num_attention_heads"}, unsaid.num_q_heads));
  info.num_kv_heads =
      static_cast<int>(size_or(source, {"attention.head_count_kv", "num_key_value_heads"},
                               unsaid.num_kv_heads > 0 ? unsaid.num_kv_heads : info.num_q_heads));
  if (info.num_layers > kMostLayers || info.num_q_heads > kMostHeads)
    throw damaged(source,
                  fmt::format("it has {} layers of {} query heads; at most {} and {} are read",
                              info.num_layers, info.num_q_heads, kMostLayers, kMostHeads));
  info.hidden_size = size({"embedding_length", "hidden_size"});
  const Key of_expert{"expert_feed_forward_length", "moe_intermediate_size"};
  model.ffn_size = source.integer(of_expert)
                       ? required_size(source, of_expert)
                       : required_size(source, {"feed_forward_length", "intermediate_size"});
  model.context_length =
      said_or({"context_length", "max_position_embeddings"}, unsaid.context_length);
  model.rms_norm_eps =
      positive_real(source, {"attention.layer_norm_rms_epsilon", "rms_norm_eps"}, 1e-6);
  info.head_dim = static_cast<int>(
      size_or(source, {"attention.key_length", "head_dim"},
              unsaid.head_dim > 0 ? unsaid.head_dim : info.hidden_size / info.num_q_heads));
  check_heads(source, info);
  info.softmax_scale = 1.0 / std::sqrt(static_cast<double>(info.head_dim));
  info.rope_pairing = source.format() == ModelSource::Format::Gguf ? family.gguf_pairing
                                                                   : trace::RopePairing::HalfSplit;
  info.layer_types.assign(static_cast<std::size_t>(info.num_layers), trace::LayerType::Full);
  model.query_bias = flag(source, {"", "attention_bias"}, false);
  use_one_rope(model,
               unsaid.rope_theta > 0 ? usual_rope(source, unsaid.rope_theta) : usual_rope(source));
  if (family.configure != nullptr) family.configure(source, model);
  check_activation(source, model.activation);
  for (const Key& experts : {Key{"expert_count", "num_local_experts"}, Key{"", "num_experts"}})
    if (model.experts.count == 0 && source.integer(experts).value_or(0) > 0)
      throw unsupported(source,
                        fmt::format("{} asks for experts, which the family {} does not have",
                                    source.spelt(experts), family.id));
  for (auto& [layer, softmax] : info.shaped_softmax) softmax.scale = info.softmax_scale;
  for (const RopeForm& rope : model.ropes)
    if (!rope.divisors.empty() &&
        rope.divisors.size() * 2 != static_cast<std::size_t>(info.head_dim))
      throw damaged(source,
                    fmt::format("the tensor rope_freqs.weight has {} numbers for heads of {}",
                                rope.divisors.size(), info.head_dim));
  info.rope_theta = model.ropes.front().theta;
  info.rope_scaling = rope_scaling_text(model);
  return model;
}

}  // namespace kvloupe::capture
