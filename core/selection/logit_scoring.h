// Scores keys by what queries make of them: logits or attention, of the chunk's own queries and keys
// or of narrower ones, their numbers in a few channels or directions.
#pragma once

#include "core/selection/selector.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace kvloupe::selection {

// The mean over the chunk's rows of each query head, [num_q_heads, head_dim].
at::Tensor mean_query_rows(const Cell& cell);
// The mean over the rows and the heads of each group, [num_kv_heads, head_dim].
at::Tensor mean_queries(const Cell& cell);

// softmax_scale * <row, key> of the candidates [0, num_candidates), each row with the keys of its
// KV head. keys [num_kv_heads, >= num_candidates, width] as the cell's; rows [n, width], n a
// multiple of num_kv_heads, heads of a group together. Returns [n, num_candidates]. Raw logits are
// linear, so the logit of a mean query is the mean logit.
at::Tensor logit_scores(const Cell& cell, const at::Tensor& keys, const at::Tensor& rows,
                        std::int64_t num_candidates);

// The mean over the group's heads and the given chunk rows of their causal softmax over [0, T),
// [num_kv_heads, num_candidates]. queries [num_q_heads, m, width], keys [num_kv_heads, T, width]: the
// cell's, or what stands for them.
at::Tensor attention_scores(const Cell& cell, const at::Tensor& queries, const at::Tensor& keys,
                            std::span<const std::int32_t> rows, std::int64_t num_candidates);

}  // namespace kvloupe::selection
