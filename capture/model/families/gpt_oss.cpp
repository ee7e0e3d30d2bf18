// GPT-OSS (arXiv 2508.10925): a learned sink in every head's softmax, a window in every other layer,
// biases everywhere, experts behind a clamped activation, YaRN.
#include "capture/model/family.h"

namespace kvloupe::capture {

void family_gpt_oss(Family& family) {
  family.gguf = {"gpt-oss"};
  family.names = {
      {Role::FeedForwardNorm, "blk.{}.post_attention_norm",
       "model.layers.{}.post_attention_layernorm"},
      {Role::Router, "blk.{}.ffn_gate_inp", "model.layers.{}.mlp.router"},
      {Role::ExpertGateUp, "", "model.layers.{}.mlp.experts.gate_up_proj"},
      {Role::ExpertDown, "blk.{}.ffn_down_exps", "model.layers.{}.mlp.experts.down_proj"}};
  family.configure = [](const ModelSource& source, ModelConfig& model) {
    model.experts = usual_experts(source);
    model.experts.softmax_over_all = false;
    model.sinks = true;
    model.query_bias = true;
    model.activation = Activation::ClampedSwish;
    const std::int64_t window =
        required_size(source, {"attention.sliding_window", "sliding_window"});
    if (!windows_by_layer_types(source, model, window))
      for (int layer = 0; layer < model.info.num_layers; layer += 2)
        set_window(model, layer, window);
    for (RopeForm& rope : model.ropes)
      if (source.format() == ModelSource::Format::Gguf) rope.truncate = false;
  };
}

}  // namespace kvloupe::capture
