// How few queries and keys carry the attention of one head in one chunk (QuoKA, Figures 2a and 3).
#pragma once

#include "core/analysis/matrix.h"
#include "core/analysis/power_tail.h"
#include "core/base/cancel.h"
#include "core/session/session.h"

#include <cstdint>
#include <vector>

namespace kvloupe::analysis {

// How the score of a key, cos(query, key) as QuoKA scores, deviates from the key's mean over the chunk's
// queries: one deviation for each past key but position 0 and each query that sees it.
struct ScoreDeviations {
  static constexpr double kBinWidth = 0.25;  // in sigma

  std::int64_t count = 0;
  double sigma = 0;                // root of the mean squared deviation; 0: no score deviates
  double excess_kurtosis = 0;      // mean of (d / sigma)^4, less the 3 of a normal distribution
  double lowest = 0, highest = 0;  // in sigma
  double above_3_sigma = 0;        // share of the deviations d > 3 sigma; 0.00135 in a normal one
  std::int64_t first_bin = 0;      // bin b holds b <= d / (kBinWidth sigma) < b + 1
  std::vector<std::int64_t> bins;  // from first_bin on, how many deviations lie in each
};

// Mass is the dense p that the chunk's queries give to the keys before the chunk. Position 0 is set
// apart: as an attention sink it would hide how the rest is shared.
struct HeavyTail {
  std::vector<double> relevance;   // [m] S_q = -cos(mean query, query)
  std::vector<double> query_mass;  // [m] that the query gives to the keys 1 .. P - 1
  std::vector<double> key_mass;    // [P] that the key is given
  ScoreDeviations deviations;      // none in a chunk of one query, which is its own mean
  // [P] of each key's scores, cos(query, key), over the chunk's queries that see it: what QuoKA ranks keys
  // by, and the mean in its place. Minus infinity for position 0, which is left out, and where no query
  // sees the key; empty in a chunk of one query.
  std::vector<double> largest_score, mean_score;
};
// `rows`: the chunk's attention_rows() of this layer and head. Throws Error{Input} where Q, K or V
// hold a NaN or Inf.
HeavyTail heavy_tail(const session::TraceSession& session, int layer, int chunk, int q_head,
                     const Matrix& rows, const WorkContext& context);

}  // namespace kvloupe::analysis
