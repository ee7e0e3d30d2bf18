// Scores keys against a few representative query rows (QuoKA, Algorithm 1).
// Which rows those are is what QuoKA and its ablation differ in.
#pragma once

#include "core/selection/selector.h"

#include <cstdint>
#include <vector>

namespace kvloupe::selection {

enum class KeyMetric { Cosine, Dot };
enum class QueryReduce { Max, Mean };
enum class GroupReduce {
  RowsFirst,    // slot r of the group is the mean of its heads' slot r; then reduce over the slots
  ScoresFirst,  // reduce over each head's rows; then the mean over the heads
};

struct CosineScoring {
  KeyMetric metric = KeyMetric::Cosine;
  QueryReduce query_reduce = QueryReduce::Max;
  GroupReduce group_reduce = GroupReduce::RowsFirst;
};

inline constexpr double kCosineEpsilon = 1e-6;

// chosen[h]: the chunk rows that stand for query head h, slot by slot; the same number in each
// head. Returns [num_kv_heads, num_candidates].
std::vector<float> score_keys(const Cell& cell,
                              const std::vector<std::vector<std::int32_t>>& chosen,
                              std::int64_t num_candidates, const CosineScoring& options);

// S_q of one query head (QuoKA, Algorithm 1): minus the cosine of each row of the
// chunk to the mean row. Low cosine, high score.
std::vector<double> query_relevance(const Cell& cell, std::int64_t q_head);

}  // namespace kvloupe::selection
