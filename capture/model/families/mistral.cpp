// Mistral (arXiv 2310.06825): Llama with a window in all layers, where there is one.
#include "capture/model/family.h"

namespace kvloupe::capture {

void family_mistral(Family& family) {
  family.gguf = {};  // there it is llama
  family.configure = [](const ModelSource& source, ModelConfig& model) {
    const std::int64_t window = size_or(source, {"", "sliding_window"}, 0);
    if (window == 0 || windows_by_layer_types(source, model, window)) return;
    for (int layer = 0; layer < model.info.num_layers; ++layer) set_window(model, layer, window);
  };
}

}  // namespace kvloupe::capture
