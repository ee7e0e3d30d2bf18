// How few queries and keys carry the attention of one head in one chunk (QuoKA, Figures 2a and 3).
#pragma once

#include "core/analysis/pyramid.h"
#include "core/base/cancel.h"
#include "core/session/session.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace kvloupe::analysis {

// Mass is the dense p that the chunk's queries give to the keys before the chunk. Position 0 is set
// apart: as an attention sink it would hide how the rest is shared.
struct HeavyTail {
  std::vector<double> relevance;   // [m] S_q = -cos(mean query, query)
  std::vector<double> query_mass;  // [m] that the query gives to the keys 1 .. P - 1
  std::vector<double> key_mass;    // [P] that the key is given
};
// `rows`: the chunk's attention_rows() of this layer and head. Throws Error{Input} where Q, K or V
// hold a NaN or Inf.
HeavyTail heavy_tail(const session::TraceSession& session, int layer, int chunk, int q_head,
                     const Matrix& rows, const WorkContext& context);

// Values by rank, the largest first, equal ones in their order.
struct Ranking {
  std::vector<std::int32_t> item;  // index of the value
  std::vector<double> value;       // falling
  std::vector<std::int32_t> rank;  // by item, from 0

  std::size_t size() const { return item.size(); }
};
Ranking rank(const std::vector<double>& values);

// A power law through the k = floor(sqrt(n)) largest of n values, by Hill's estimator:
//   index = k / (sum over i = 1 .. k of ln(x_i / x_(k+1))),   x_1 >= x_2 >= ...
// The share of values above x falls as x^-index, so the value of rank r is about
// x_(k+1) (r / (k + 1))^(-1 / index). The smaller the index, the heavier the tail: below 2 the
// variance is unbounded, below 1 the mean.
struct PowerTail {
  double index = 0;
  std::int64_t top = 0;  // k
  double base = 0;       // x_(k+1)

  double at(double rank) const;  // from 1
};
// Nothing where it is not defined: n < 2, x_(k+1) <= 0, or the k + 1 largest are equal.
std::optional<PowerTail> hill_tail(const std::vector<double>& falling);

// The smallest number of the largest values that hold half of the sum; 0 where the sum is 0.
std::int64_t count_holding_half(const std::vector<double>& falling);

}  // namespace kvloupe::analysis
