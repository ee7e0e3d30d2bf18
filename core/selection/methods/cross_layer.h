// The selection layers of TidalDecode and LessIsMore: first_layer and correction_layer; layers below
// first_layer are dense, a correction layer that is not above first_layer is ignored, and the layers
// above a selection layer reuse its choice. Free of Torch.
#pragma once

#include "core/selection/spec/method.h"

#include <optional>

namespace kvloupe::selection {

// The last selection layer that is not above `layer`; nullopt below them all.
std::optional<int> selection_layer(const MethodSpec& spec, int layer);
// The selection layer whose set a layer reuses.
std::optional<int> reused_layer(const MethodSpec& spec, int layer);
// Gives a method first_layer, correction_layer and sel_layers, and says which layer reuses which.
void make_cross_layer_method(Method& method);

}  // namespace kvloupe::selection
