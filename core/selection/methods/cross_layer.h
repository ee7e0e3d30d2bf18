// The selection layers of TidalDecode and LessIsMore: first_layer and correction_layer; layers below
// first_layer are dense, a correction layer that is not above first_layer is ignored, and the layers
// above a selection layer reuse its choice. Free of Torch.
#pragma once

#include "core/selection/spec/method.h"

#include <optional>
#include <vector>

namespace kvloupe::selection {

// The last selection layer that is not above `layer`; nullopt below them all.
std::optional<int> selection_layer(const MethodSpec& spec, int layer);
// Method::source_layer: the selection layer whose set a layer reuses.
std::optional<int> reused_layer(const MethodSpec& spec, int layer);
// first_layer, correction_layer, sel_layers.
std::vector<ParamInfo> cross_layer_params();

}  // namespace kvloupe::selection
