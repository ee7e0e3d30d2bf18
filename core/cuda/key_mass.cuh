// Key mass of dense attention on the GPU: the sum of p over the rows of a KV head, a pass over K of its
// own once the rows' log-sum-exp is known.
#pragma once

#include "core/cuda/row_attention.cuh"

namespace kvloupe::cuda {

// Of a dense problem (make_dense) whose lse is there. key_mass: [num_kv_heads, kv_len].
cudaError_t launch_key_mass(const RowAttention& problem, float* key_mass, cudaStream_t stream);
// The same of fp16 and bf16, for launch_key_mass.
cudaError_t launch_half_key_mass(const RowAttention& problem, float* key_mass, cudaStream_t stream);

}  // namespace kvloupe::cuda
