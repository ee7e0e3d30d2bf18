// Attention of one chunk over a KV cache on the GPU: output and row log-sum-exp in one pass over K
// and V, column mass in a second pass over K. fp32 throughout, no atomics: the same input gives the
// same bits. No Torch header here; shapes as in core/attention/attention.h.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {

struct ChunkAttention {
  const float* q =
      nullptr;  // [num_kv_heads, rows, head_dim]: a group's query heads folded into rows
  const float* k = nullptr;  // [num_kv_heads, kv_len, head_dim], heads k_head_stride apart
  const float* v = nullptr;  // the same, heads v_head_stride apart
  std::int64_t k_head_stride = 0;
  std::int64_t v_head_stride = 0;
  int num_kv_heads = 0;
  int rows = 0;       // gqa_group_size * chunk_len
  int chunk_len = 0;  // m; folded row r is query r % m of the chunk
  int kv_len = 0;     // T
  int head_dim = 0;   // at most kMaxHeadDim
  float scale = 1;
  float* output = nullptr;    // [num_kv_heads, rows, head_dim]
  float* lse = nullptr;       // [num_kv_heads, rows]
  float* key_mass = nullptr;  // [num_kv_heads, kv_len], or null
};

inline constexpr int kMaxHeadDim = 256;

cudaError_t launch_chunk_attention(const ChunkAttention& problem, cudaStream_t stream);

}  // namespace kvloupe::cuda
