// What kernels of attention share: tiles of rows in shared memory and their products with tiles of
// keys. A block of kThreads meets kKeys keys at a time; kLanes threads share a row. Thread (group, lane)
// has the rows group, group + kGroups, ... and the keys lane, lane + kLanes, ...: so neighbouring
// threads read neighbouring banks of shared memory, four numbers at a time.
#pragma once

#include "core/cuda/row_attention.cuh"

#include <cmath>
#include <cstdint>

#include <cuda_pipeline_primitives.h>

namespace kvloupe::cuda {

inline constexpr int kThreads = 128;
inline constexpr int kLanes = 8;
inline constexpr int kGroups = kThreads / kLanes;
inline constexpr int kRowsOfWarp = 32 / kLanes;  // that lie below each other
inline constexpr int kKeys = 32;
inline constexpr int kKeysOfThread = kKeys / kLanes;

// Rows of a thread where there are enough: more of them reuse more of what is read, as far as registers
// and shared memory go.
template <int kDim>
inline constexpr int kMostRowsOfThread = kDim > 128 ? 2 : 4;

// Four numbers more than are used: rows below each other begin in different banks.
template <int kDim>
struct alignas(16) Row {
  float values[kDim + 4];
};

__device__ inline float4 load4(const float* from) { return *reinterpret_cast<const float4*>(from); }
__device__ inline void store4(float* to, float4 numbers) {
  *reinterpret_cast<float4*>(to) = numbers;
}

__device__ inline float product(float4 a, float4 b, float sum) {
  return sum + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

// Whether rows of the matrix can be read four numbers at a time.
inline bool is_aligned(const float* matrix, std::int64_t head_stride, int head_dim) {
  return head_dim % 4 == 0 && head_stride % 4 == 0 &&
         reinterpret_cast<std::uintptr_t>(matrix) % alignof(float4) == 0;
}

// tile[i] is row source(i) of the matrix, zero where source(i) is negative and beyond head_dim. The copies
// are committed, not waited for.
template <int kDim, int kCount, typename Source>
__device__ void load_tile(Row<kDim> (&tile)[kCount], const float* matrix, int head_dim,
                          bool aligned, const Source& source) {
  const int thread = static_cast<int>(threadIdx.x);
  if (aligned) {
    constexpr int kQuads = kDim / 4;
#pragma unroll 2
    for (int n = 0; n < kCount * kQuads / kThreads; ++n) {
      const int i = n * kThreads + thread, column = i % kQuads * 4;
      const int from = source(i / kQuads);
      float* to = tile[i / kQuads].values + column;
      if (from >= 0 && column < head_dim)
        __pipeline_memcpy_async(to, matrix + static_cast<std::int64_t>(from) * head_dim + column,
                                sizeof(float4));
      else
        store4(to, {0, 0, 0, 0});
    }
  } else {
#pragma unroll 1
    for (int i = thread; i < kCount * kDim; i += kThreads) {
      const int from = source(i / kDim), column = i % kDim;
      float* to = tile[i / kDim].values + column;
      if (from >= 0 && column < head_dim)
        __pipeline_memcpy_async(to, matrix + static_cast<std::int64_t>(from) * head_dim + column,
                                sizeof(float));
      else
        *to = 0;
    }
  }
  __pipeline_commit();
}

// s[i][j] of the thread's row i and key j.
template <int kDim, int kRowsOfThread>
__device__ void multiply(const Row<kDim>* q, const Row<kDim>* k, int group, int lane,
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

__device__ inline float logit(const RowAttention& p, float product) {
  const float s = p.scale * product;
  return p.softcap > 0 ? p.softcap * tanhf(s / p.softcap) : s;
}

}  // namespace kvloupe::cuda
