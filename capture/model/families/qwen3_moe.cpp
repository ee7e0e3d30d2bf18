// Qwen3 with experts (arXiv 2505.09388).
#include "capture/model/family.h"

namespace kvloupe::capture {

void family_qwen3_moe(Family& family) {
  family.gguf = {"qwen3moe"};
  family.configure = [](const ModelSource& source, ModelConfig& model) {
    model.qk_norm = QkNorm::EachHead;
    model.experts = usual_experts(source);
    model.experts.renormalised = flag(source, {"", "norm_topk_prob"}, true);
    windows_of_qwen(source, model);
  };
}

}  // namespace kvloupe::capture
