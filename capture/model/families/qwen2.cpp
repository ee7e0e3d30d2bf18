// Qwen2 and Qwen2.5 (arXiv 2412.15115): biases of query, key and value; windows where the
// configuration turns them on, from layer max_window_layers on.
#include "capture/model/family.h"

namespace kvloupe::capture {

void family_qwen2(Family& family) {
  family.configure = [](const ModelSource& source, ModelConfig& model) {
    model.query_bias = true;
    windows_of_qwen(source, model);
  };
}

}  // namespace kvloupe::capture
