// How far the queries of one head lie from their mean: S_q of QuoKA (paper Eq. 1-2, Algorithm 1), with
// the queries marked that stand for the chunk in a method's choice.
#pragma once

#include "core/base/cancel.h"
#include "core/selection/spec/method_spec.h"
#include "core/session/session.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::analysis {

struct QueryGeometry {
  int layer = 0, chunk = 0, q_head = 0;
  std::vector<float> relevance;      // S_q [m]: -cos(mean query, q)
  std::vector<float> max_attention;  // [m] largest p over keys, position 0 excluded
  // [m] of the key k that gets this largest p: cos(mean query, k), cos(k, query); NaN if there is none.
  std::vector<float> alpha, beta;
  std::vector<std::uint8_t> chosen;  // [m] 1: one of the few rows that the method asked
  std::string chosen_missing;        // why `chosen` is not known: the method cannot be set up here
  bool is_chosen(std::size_t row) const { return !chosen.empty() && chosen[row] != 0; }
  double pearson_r = 0;  // of relevance against max_attention; NaN if undefined
};
// `method`, resolved, is the one whose rows are marked in `chosen`; it is empty without a method, and
// where the method lets all rows speak or none. Throws Error{Input} for a place outside the trace.
QueryGeometry query_geometry(const session::TraceSession& session, int layer, int chunk, int q_head,
                             const std::optional<selection::MethodSpec>& method,
                             const WorkContext& context);

// What cos(mean query, query) = -S_q is at most, by Theorem 1 of QuoKA. The paper asks for alpha < 0 <
// beta; its proof holds for any signs.
constexpr double theorem_bound(double alpha, double beta) {
  return 1 + alpha * beta - (alpha * alpha + beta * beta) / 2;
}

// Pearson r of two series; NaN when one is constant or shorter than 2.
double pearson(const std::vector<float>& x, const std::vector<float>& y);

}  // namespace kvloupe::analysis
