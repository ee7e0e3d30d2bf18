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
  // [m] of the key k that gets this largest p: cos(mean query, k), cos(k, query); NaN if there is none.
  std::vector<float> alpha, beta;
};
QueryRelevance query_relevance_of(const selection::Cell& cell, int q_head);

// [m] 1 for the rows that `method`, resolved, lets stand for the chunk in this query head; empty where
// it lets all rows speak, or none. Throws Error{Input} when the method cannot be made: a file of its
// own is not at hand.
std::vector<std::uint8_t> chosen_queries(const selection::Cell& cell, int q_head,
                                         const selection::MethodSpec& method,
                                         const selection::ModelShape& shape);

}  // namespace kvloupe::analysis
