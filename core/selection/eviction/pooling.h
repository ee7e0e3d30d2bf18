// One-dimensional pooling of scores along the keys, with as many outputs as inputs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace kvloupe::selection {

enum class PoolKind {
  Max,      // beyond the ends: nothing
  Average,  // beyond the ends: zeros that count, so the ends are damped
};

// out[r, i] over the `kernel` (odd) inputs of row r centred at i; values fp32 [R, n], on any device.
at::Tensor pool_same(const at::Tensor& values, std::int64_t kernel, PoolKind kind);

}  // namespace kvloupe::selection
