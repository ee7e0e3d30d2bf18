// Qwen3 (arXiv 2505.09388): norms of each query and key head.
#include "capture/model/family.h"

namespace kvloupe::capture {

void family_qwen3(Family& family) {
  family.configure = [](const ModelSource& source, ModelConfig& model) {
    model.qk_norm = QkNorm::EachHead;
    windows_of_qwen(source, model);
  };
}

}  // namespace kvloupe::capture
