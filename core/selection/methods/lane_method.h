// What is said alike of the AQUA methods. Free of Torch.
#pragma once

#include "core/selection/spec/method.h"

namespace kvloupe::selection {

// The parts of MethodInfo that all four share, and their traits.
Method lane_method();
// Method::traits of all four, from the parameters that they share.
void set_lane_traits(const MethodSpec& spec, Traits& traits);
// The share of lanes that all of them take.
ParamInfo dim_ratio_param();

}  // namespace kvloupe::selection
