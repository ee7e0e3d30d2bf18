// The model that gates and patterns are read for.
#pragma once

#include "core/selection/spec/method_spec.h"

namespace kvloupe::fuzz {

inline selection::ModelShape small_shape() {
  return {.num_layers = 2, .num_q_heads = 4, .num_kv_heads = 2, .head_dim = 4, .rope_theta = 10000};
}

}  // namespace kvloupe::fuzz
