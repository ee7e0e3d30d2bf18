// Qwen3 (arXiv 2505.09388): norms of each query and key head.
#include "capture/model/family.h"

namespace kvloupe::capture {

Family family_qwen3() {
  Family family;
  family.id = "qwen3";
  family.gguf = {"qwen3"};
  family.hugging_face = {"qwen3"};
  family.configure = [](const ModelSource& source, ModelConfig& model) {
    model.qk_norm = QkNorm::EachHead;
    windows_of_qwen(source, model);
  };
  return family;
}

}  // namespace kvloupe::capture
