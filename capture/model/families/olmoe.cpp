// OLMoE (arXiv 2409.02060): norms over all query heads and over all key heads, experts.
#include "capture/model/family.h"

namespace kvloupe::capture {

void family_olmoe(Family& family) {
  family.configure = [](const ModelSource& source, ModelConfig& model) {
    model.qk_norm = QkNorm::AllHeads;
    model.experts = usual_experts(source);
    model.experts.renormalised = flag(source, {"", "norm_topk_prob"}, false);
    if (source.real({"attention.clamp_kqv", "clip_qkv"}).value_or(0) != 0)
      throw unsupported(source, "its clipped queries, keys and values are not implemented");
  };
}

}  // namespace kvloupe::capture
