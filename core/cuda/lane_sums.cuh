// A row of channels spread over the lanes of a warp, which have lane, lane + 32, ... of it: sums over the row,
// and its length.
#pragma once

#include "core/cuda/row_products.cuh"

#include <cmath>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {

inline constexpr int kLanes = 32;
inline constexpr int kChannelsOfLane = kMostChannels / kLanes;

// As kernels.h has it for the CPU: less is no length (operators.h, kCosineEpsilon).
inline constexpr double kLeastRowLength = 1e-6;

// In all lanes.
__device__ inline double sum_of_lanes(double value) {
  for (int step = kLanes / 2; step > 0; step /= 2)
    value += __shfl_xor_sync(0xFFFFFFFFU, value, step);
  return value;
}

// Of a row whose square this is.
__device__ inline double length_of(double square) {
  const double length = sqrt(square);
  return length < kLeastRowLength ? kLeastRowLength : length;
}

}  // namespace kvloupe::cuda
