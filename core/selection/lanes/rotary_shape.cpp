#include "core/selection/lanes/rotary_shape.h"

namespace kvloupe::selection {

bool has_rotary(const ModelShape& shape, int layer) {
  const auto index = static_cast<std::size_t>(layer);
  return index >= shape.layer_types.size() || shape.layer_types[index] != trace::LayerType::Nope;
}

std::optional<RotaryUnknown> rotary_unknown(const ModelShape& shape) {
  if (shape.rope_scaling != "none")
    return RotaryUnknown{"the model scales its rotary frequencies in a way that is not known here",
                         "use a model without rope_scaling"};
  const bool any = [&] {
    for (int layer = 0; layer < shape.num_layers; ++layer)
      if (has_rotary(shape, layer)) return true;
    return false;
  }();
  if (any && (shape.rope_theta <= 0 || shape.head_dim % 2 != 0))
    return RotaryUnknown{
        "the model's description does not say how its rotary embedding turns heads",
        "capture the trace anew, or give rope_theta with the arrays"};
  return std::nullopt;
}

}  // namespace kvloupe::selection
