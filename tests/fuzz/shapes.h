// The model that gates and patterns are read for.
#pragma once

#include "core/selection/spec/method_spec.h"

namespace kvloupe::fuzz {

inline selection::ModelShape small_shape() {
  selection::ModelShape shape;
  shape.num_layers = 2;
  shape.num_q_heads = 4;
  shape.num_kv_heads = 2;
  shape.head_dim = 4;
  shape.rope_theta = 10000;
  return shape;
}

}  // namespace kvloupe::fuzz
