// Torch's own attention kernels of a GPU, each by its name: what a sparse method competes with there.
// Private to core/measure: needs Torch.
#pragma once

#include "core/measure/dense_forms.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace kvloupe::measure {

// Of a chunk, all of one type, fp32 or fp16: the queries are the last m of T, and causal.
struct ChunkInputs {
  at::Tensor q;                       // [1, num_q_heads, m, head_dim]
  at::Tensor k, v;                    // [1, num_kv_heads, T, head_dim]
  MakeTensor expanded_k, expanded_v;  // [1, num_q_heads, T, head_dim]
  MakeTensor mask;                    // [m, T]: 0 or -inf
  double scale = 1;
};

// Flash, memory-efficient and cuDNN attention in fp16, which the first and the last do not do in fp32.
// For a chunk in fp32 memory-efficient attention in fp32 beside them, and copies in fp16.
std::vector<DenseForm> gpu_kernels(const ChunkInputs& chunk);

}  // namespace kvloupe::measure
