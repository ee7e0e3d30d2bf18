// Scores keys by what queries make of them: logits or attention, of the chunk's own queries or of
// approximate ones. Logits over a few channels or directions are exact logits of another query
// (<P_r^T q, P_r^T k> = <P_r P_r^T q, k>), so methods only say which queries.
#pragma once

#include "core/selection/selector.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe::selection {

// The mean over the chunk's rows of one query head, [head_dim].
std::vector<double> mean_query(const Cell& cell, std::int64_t q_head);
// The mean over the rows and the heads of each group, [num_kv_heads, head_dim].
std::vector<double> mean_queries(const Cell& cell);

// softmax_scale * <row, key> of the candidates [0, num_candidates), each row with the keys of its
// KV head. rows [n, head_dim], n a multiple of num_kv_heads, heads of a group together. Returns
// [n, num_candidates]. Raw logits are linear, so the logit of a mean query is the mean logit.
std::vector<float> logit_scores(const Cell& cell, std::span<const double> rows,
                                std::int64_t num_candidates);

// The mean over the group's heads and the given chunk rows of their causal softmax over [0, T),
// [num_kv_heads, num_candidates]. queries [num_q_heads, m, head_dim]: the cell's or approximations.
std::vector<float> attention_scores(const Cell& cell, const at::Tensor& queries,
                                    std::span<const std::int32_t> rows,
                                    std::int64_t num_candidates);

}  // namespace kvloupe::selection
