// What is said alike of the AQUA methods. Free of Torch.
#pragma once

#include "core/selection/spec/method.h"

namespace kvloupe::selection {

// What is known of all four alike, and their traits.
void make_lane_method(Method& method);
// Method::traits of all four, from the parameters that they share.
void set_lane_traits(const MethodSpec& spec, Traits& traits);
// The share of lanes that all of them take.
ParamInfo dim_ratio_param();

}  // namespace kvloupe::selection
