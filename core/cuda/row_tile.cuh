// Tiles of rows in shared memory, for what attends and for what reduces attention over its rows.
#pragma once

#include "core/cuda/attend.cuh"
#include "core/cuda/rows.cuh"

#include <cstdint>

#include <cuda_pipeline_primitives.h>

namespace kvloupe::cuda {

// tile[i] is row source(i) of the matrix, whose rows lie `stride` apart: its first `width` numbers, then
// zeros; zero where source(i) is negative. The copies are committed, not waited for.
template <typename T, int kDim, int kCount, typename Source>
__device__ void load_tile(Row<T, kDim> (&tile)[kCount], const T* matrix, int stride, int width,
                          bool aligned, const Source& source) {
  const int thread = static_cast<int>(threadIdx.x);
  if (aligned) {
    constexpr int kNumbers = 16 / sizeof(T), kPieces = kDim / kNumbers;
#pragma unroll 2
    for (int n = 0; n < kCount * kPieces / kThreads; ++n) {
      const int i = n * kThreads + thread, column = i % kPieces * kNumbers;
      const int from = source(i / kPieces);
      T* to = tile[i / kPieces].values + column;
      if (from >= 0 && column < width)
        __pipeline_memcpy_async(to, matrix + static_cast<std::int64_t>(from) * stride + column, 16);
      else
        *reinterpret_cast<float4*>(to) = {0, 0, 0, 0};
    }
  } else {
#pragma unroll 1
    for (int i = thread; i < kCount * kDim; i += kThreads) {
      const int from = source(i / kDim), column = i % kDim;
      T* to = tile[i / kDim].values + column;
      if (from >= 0 && column < width)
        copy_number(to, matrix + static_cast<std::int64_t>(from) * stride + column);
      else
        *to = T{};
    }
  }
  __pipeline_commit();
}

// Of a matrix whose rows are as wide and lie as far apart.
template <typename T, int kDim, int kCount, typename Source>
__device__ void load_tile(Row<T, kDim> (&tile)[kCount], const T* matrix, int head_dim, bool aligned,
                          const Source& source) {
  load_tile(tile, matrix, head_dim, head_dim, aligned, source);
}

// Of a problem that has a scale and a softcap.
template <typename Problem>
__device__ inline float logit(const Problem& p, float product) {
  const float s = p.scale * product;
  return p.softcap > 0 ? p.softcap * tanhf(s / p.softcap) : s;
}

// Of dense attention: whether query t of the chunk sees the key at this position.
__device__ inline bool is_seen(const RowAttention& p, int position, int t) {
  const int own = p.kv_len - p.chunk_len + t;
  return position <= own && (p.window == 0 || position > own - p.window);
}

// Of dense attention: how many rows of a view may see keys of a tile that ends before `end`. Keys that the
// window leaves to no query are in tiles of their own, but for one.
__device__ inline int rows_that_see(const RowAttention& p, int end) {
  return end > p.kv_len - p.most_keys ? p.most_rows : 0;
}

}  // namespace kvloupe::cuda
