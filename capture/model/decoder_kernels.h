// The decoder's small fused steps between matrix products, in fp32 on any device.
#pragma once

#include "capture/model/rope.h"
#include "core/trace/trace_types.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace kvloupe::capture {

// x * weight / sqrt(mean(x^2) + eps) of each row; x [m, hidden_size], weight [hidden_size].
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

// The same in place, of columns of x [m, columns] from `first` on: `count` pieces as wide as the
// weight, each normed by itself.
void rms_norm_columns(const at::Tensor& x, std::int64_t first, std::int64_t count,
                      const at::Tensor& weight, double eps);

// Cosine and sine of every pair's angle at positions [begin, begin + count), [count, head_dim / 2],
// times the embedding's magnitude. On the CPU.
struct RopeTable {
  at::Tensor cos, sin;
};
RopeTable rope_table(std::int64_t begin, std::int64_t count, const RopeFrequencies& rope);

// Takes the rows of the fused projection, [m, num_heads * head_dim], apart into heads,
// [num_heads, m, head_dim], and rotates the first `num_rotated` of them; the table is not read where
// `num_rotated` is 0.
at::Tensor split_and_rotate(const at::Tensor& projected, std::int64_t num_heads,
                            std::int64_t num_rotated, const RopeTable& table,
                            trace::RopePairing pairing);

}  // namespace kvloupe::capture
