// Products of tiles in fp32, by multiply-adds. A block of kThreads meets kKeys keys at a time; kLanes
// threads share a row. Thread (group, lane) has the rows group, group + kGroups, ... and the keys lane,
// lane + kLanes, ...: so neighbouring threads read neighbouring banks of shared memory, four numbers at a
// time.
#pragma once

#include "core/cuda/row_tile.cuh"

namespace kvloupe::cuda {

inline constexpr int kLanes = 8;
inline constexpr int kGroups = kThreads / kLanes;
inline constexpr int kRowsOfWarp = 32 / kLanes;  // that lie below each other
inline constexpr int kKeys = 32;
inline constexpr int kKeysOfThread = kKeys / kLanes;

// Rows of a thread where there are enough: more of them reuse more of what is read, as far as registers
// and shared memory go.
template <int kDim>
inline constexpr int kMostRowsOfThread = kDim > 128 ? 2 : 4;

template <int kDim>
using Fp32Row = Row<float, kDim>;

__device__ inline float4 load4(const float* from) { return *reinterpret_cast<const float4*>(from); }

__device__ inline float product(float4 a, float4 b, float sum) {
  return sum + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

// s[i][j] of the thread's row i and key j.
template <int kDim, int kRowsOfThread>
__device__ void multiply(const Fp32Row<kDim>* q, const Fp32Row<kDim>* k, int group, int lane,
                         float (&s)[kRowsOfThread][kKeysOfThread]) {
  for (auto& row : s)
    for (float& each : row) each = 0;
#pragma unroll 2
  for (int c = 0; c < kDim; c += 4) {
    float4 keys[kKeysOfThread];
#pragma unroll
    for (int j = 0; j < kKeysOfThread; ++j) keys[j] = load4(k[lane + j * kLanes].values + c);
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) {
      const float4 row = load4(q[group + i * kGroups].values + c);
#pragma unroll
      for (int j = 0; j < kKeysOfThread; ++j) s[i][j] = product(row, keys[j], s[i][j]);
    }
  }
}

}  // namespace kvloupe::cuda
