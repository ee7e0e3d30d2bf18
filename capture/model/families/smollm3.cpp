// SmolLM3: Llama whose every fourth layer has no position embedding (NoPE).
#include "capture/model/family.h"

namespace kvloupe::capture {

void family_smollm3(Family& family) {
  family.gguf_pairing = trace::RopePairing::Interleaved;
  family.configure = [](const ModelSource& source, ModelConfig& model) {
    // 1: has the embedding. GGUF files do not tell: every fourth layer has none.
    const auto listed = source.integers({"", "no_rope_layers"});
    const std::int64_t step = size_or(source, {"", "no_rope_layer_interval"}, 4);
    for (int layer = 0; layer < model.info.num_layers; ++layer) {
      const auto index = static_cast<std::size_t>(layer);
      const bool embedded =
          listed && index < listed->size() ? (*listed)[index] != 0 : (layer + 1) % step != 0;
      if (embedded) continue;
      model.rope_of_layer[index] = -1;
      model.info.layer_types[index] = trace::LayerType::Nope;
    }
    if (flag(source, {"", "use_sliding_window"}, false))
      throw unsupported(source, "windows beside layers without positions are not implemented");
  };
}

}  // namespace kvloupe::capture
