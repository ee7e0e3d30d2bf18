// Products of tiles of 16-bit numbers on tensor cores. A warp takes 16 rows at a time and keys in groups
// of 8, as tensor_core.cuh names what its lanes have: of the products with group n, a lane has in
// s[n][2 i + j] that of row g + 8 i and key 8 n + 2 t + j.
#pragma once

#include "core/cuda/row_tile.cuh"
#include "core/cuda/tensor_core.cuh"

namespace kvloupe::cuda {

inline constexpr int kWarps = kThreads / 32;
inline constexpr int kRowsOfWarp = 16;

__device__ inline int warp_of_thread() { return static_cast<int>(threadIdx.x) / 32; }
__device__ inline int lane_of_thread() { return static_cast<int>(threadIdx.x) % 32; }

// s of the warp's rows, which begin at q, and of the keys from k on.
template <typename T, int kDim, int kGroups>
__device__ void multiply(const Row<T, kDim>* q, const Row<T, kDim>* k, float (&s)[kGroups][4]) {
  static_assert(kGroups % 2 == 0);
  const int lane = lane_of_thread();
  for (auto& group : s)
    for (float& each : group) each = 0;
#pragma unroll 8
  for (int c = 0; c < kDim; c += 16) {
    const Matrices rows = load_matrices(q[lane % 16].values + c + lane / 16 * 8);
#pragma unroll
    for (int n = 0; n < kGroups; n += 2) {
      const int key = n * 8 + lane / 16 * 8 + lane % 8;
      const Matrices keys = load_matrices(k[key].values + c + lane / 8 % 2 * 8);
      multiply_add<T>(rows, keys.of[0], keys.of[1], s[n]);
      multiply_add<T>(rows, keys.of[2], keys.of[3], s[n + 1]);
    }
  }
}

// output += p v: of the warp's rows, the keys from v on and all channels; the lane's output as s is,
// with channels for keys. p is rounded to T.
template <typename T, int kDim, int kGroups>
__device__ void add_products(const float (&p)[kGroups][4], const Row<T, kDim>* v,
                             float (&output)[kDim / 8][4]) {
  static_assert(kGroups % 2 == 0);
  const int lane = lane_of_thread();
#pragma unroll
  for (int n = 0; n < kGroups; n += 2) {
    // What a lane has of products is what it must have of a factor.
    const Matrices weights = {pack<T>(p[n][0], p[n][1]), pack<T>(p[n][2], p[n][3]),
                              pack<T>(p[n + 1][0], p[n + 1][1]), pack<T>(p[n + 1][2], p[n + 1][3])};
#pragma unroll
    for (int c = 0; c < kDim / 8; c += 2) {
      const Matrices values = load_transposed(v[n * 8 + lane % 16].values + c * 8 + lane / 16 * 8);
      multiply_add<T>(weights, values.of[0], values.of[1], output[c]);
      multiply_add<T>(weights, values.of[2], values.of[3], output[c + 1]);
    }
  }
}

// Powers of two are what a GPU computes.
inline constexpr float kLog2OfE = 1.44269504F, kLogOf2 = 0.693147181F;

// Products become logits, in powers of two.
template <int kGroups>
__device__ void scale_products(const RowAttention& p, float (&s)[kGroups][4]) {
  if (p.softcap > 0) {
#pragma unroll
    for (auto& group : s)
#pragma unroll
      for (float& each : group) each = kLog2OfE * logit(p, each);
  } else {
    const float scale = p.scale * kLog2OfE;
#pragma unroll
    for (auto& group : s)
#pragma unroll
      for (float& each : group) each *= scale;
  }
}

}  // namespace kvloupe::cuda
