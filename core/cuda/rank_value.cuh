// The order of scores as kernels have it: what core/selection/ranking.h defines for the host.
#pragma once

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {

// Larger is kept first. -0 equals +0, and a NaN ranks last. Without a branch: one between the loads of a
// thread would make them wait for each other.
__device__ inline unsigned rank_value(float score) {
  // Adding +0 turns -0 into +0 and leaves every other value.
  const unsigned bits = __float_as_uint(score + 0.0F);
  const unsigned value = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return score != score ? 0U : value;
}

}  // namespace kvloupe::cuda
