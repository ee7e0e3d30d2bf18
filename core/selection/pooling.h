// One-dimensional pooling of scores along the keys, with as many outputs as inputs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe::selection {

enum class PoolKind {
  Max,      // beyond the ends: nothing
  Average,  // beyond the ends: zeros that count, so the ends are damped
};

// out[i] over the `kernel` (odd) inputs centred at i.
std::vector<float> pool_same(std::span<const float> values, std::int64_t kernel, PoolKind kind);

}  // namespace kvloupe::selection
