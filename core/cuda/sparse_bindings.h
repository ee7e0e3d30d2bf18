// Sparse attention: from the operators' tables to the lists of keys that rows attend to. Beside bindings.h.
#pragma once

#include "core/cuda/bindings.h"

namespace kvloupe::cuda {

at::Tensor attend_gathered(const Run& run, const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v, at::ArrayRef<double> softmax, at::IntArrayRef begin,
                           const at::Tensor& positions, const at::Tensor& shared);

at::Tensor gathered_attention(const Run& run, const at::Tensor& q, const at::Tensor& k,
                              const at::Tensor& v, at::ArrayRef<double> softmax,
                              at::IntArrayRef begin, const at::Tensor& positions,
                              const at::Tensor& shared);

at::Tensor kept_attention(const Run& run, const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, at::ArrayRef<double> softmax,
                          const at::Tensor& kept);

at::Tensor paged_attention(const Run& run, const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v, at::ArrayRef<double> softmax,
                           std::int64_t page_size, std::int64_t q_heads_per_row,
                           std::int64_t pages_per_head, const at::Tensor& kv_indptr,
                           const at::Tensor& kv_indices);

at::Tensor block_sparse_attention(const Run& run, const at::Tensor& q, const at::Tensor& k,
                                  const at::Tensor& v, at::ArrayRef<double> softmax,
                                  std::int64_t block_size, const at::Tensor& mask);

}  // namespace kvloupe::cuda
