// Scores keys by what queries make of them: logits or attention, of the chunk's own queries and keys
// or of narrower ones, their numbers in a few channels or directions.
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
// KV head. keys [num_kv_heads, >= num_candidates, width] as the cell's; rows [n, width], n a multiple
// of num_kv_heads, heads of a group together. Returns [n, num_candidates]. Raw logits are linear, so
// the logit of a mean query is the mean logit.
std::vector<float> logit_scores(const Cell& cell, const at::Tensor& keys,
                                std::span<const double> rows, std::int64_t num_candidates);

// The mean over the group's heads and the given chunk rows of their causal softmax over [0, T),
// [num_kv_heads, num_candidates]. queries [num_q_heads, m, width], keys [num_kv_heads, T, width]: the
// cell's, or what stands for them.
std::vector<float> attention_scores(const Cell& cell, const at::Tensor& queries,
                                    const at::Tensor& keys, std::span<const std::int32_t> rows,
                                    std::int64_t num_candidates);

// Channels that a row of each KV head has numbers in; the same number of them for all.
struct ChannelRows {
  std::vector<std::vector<std::int32_t>> channels;  // by KV head, ascending
  std::vector<double> values;                       // [num_kv_heads, head_dim], 0 in the others
};
// logit_scores() of these rows from a copy of the cell's keys by lane: only those channels are read.
// Where head_dim is a multiple of 32, the bits are those of the whole rows with the keys themselves.
std::vector<float> channel_scores(const Cell& cell, const attention::LaneKeys& keys,
                                  const ChannelRows& rows, std::int64_t num_candidates);

}  // namespace kvloupe::selection
