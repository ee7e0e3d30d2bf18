// Qwen3 with experts (arXiv 2505.09388).
#include "capture/model/family.h"

namespace kvloupe::capture {

void family_qwen3_moe(Family& family) {
  family.gguf = {"qwen3moe"};
  family.configure = [](const ModelSource& source, ModelConfig& model) {
    model.qk_norm = QkNorm::EachHead;
    model.experts = usual_experts(source);
    // As llama.cpp runs GGUF files, and transformers what says nothing of it.
    model.experts.renormalised =
        flag(source, {"", "norm_topk_prob"}, source.format() == ModelSource::Format::Gguf);
    // One mask for all layers: max_window_layers counts in Qwen's other families alone.
    if (!flag(source, {"", "use_sliding_window"}, false)) return;
    const std::int64_t window = size_or(source, {"", "sliding_window"}, 0);
    for (int layer = 0; window > 0 && layer < model.info.num_layers; ++layer)
      set_window(model, layer, window);
  };
}

}  // namespace kvloupe::capture
