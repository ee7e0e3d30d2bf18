// S_q of QuoKA against the attention that queries truly give, of one head of one cell. Private to
// core/analysis: needs Torch.
#pragma once

#include "core/selection/selector.h"

#include <cstdint>
#include <vector>

namespace kvloupe::analysis {

struct QueryRelevance {
  std::vector<float> relevance;  // S_q [m]
  std::vector<float>
      max_attention;  // [m] largest p over keys but position 0; 0 if it sees no other
};
QueryRelevance query_relevance_of(const selection::Cell& cell, int q_head);

// 1 for the rows that quoka with default parameters and this num_queries chooses in this query
// head.
std::vector<std::uint8_t> chosen_queries(const std::vector<float>& relevance, int num_queries);

}  // namespace kvloupe::analysis
