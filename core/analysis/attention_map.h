// Attention of one head, recomputed from Q, K and the row log-sum-exp.
#pragma once

#include "core/analysis/matrix.h"
#include "core/base/cancel.h"
#include "core/session/session.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace kvloupe::analysis {

// p of the rows [query_begin, query_end) of one query head over keys [0, query_end); NaN above the
// causal diagonal.
Matrix attention_rows(const session::TraceSession& session, int layer, int q_head,
                      std::int32_t query_begin, std::int32_t query_end, const WorkContext& context);

// The same rows, the largest of `step` keys side by side, without ever holding all of them: NaN where the
// query sees none of these keys, and where one of their values is NaN.
struct AttentionStrip {
  std::int64_t step = 1;
  Matrix max;
  std::int64_t num_broken = 0;  // values that are NaN though the query sees the key
};
// `row_step` above 1 makes a sketch: of the keys before all queries only every so many queries are asked,
// and those between have their values. A layer with a window has none: it is computed whole.
AttentionStrip attention_strip(const session::TraceSession& session, int layer, int q_head,
                               std::int32_t query_begin, std::int32_t query_end,
                               std::int64_t max_columns, std::int64_t row_step,
                               const WorkContext& context);

// The whole T x T map reduced to at most `max_side` cells a side by maximum and by mean, without
// ever holding the full map.
struct AttentionMap {
  static constexpr float kNotStored = -1;  // in place of NaN, where the trace lacks queries

  int layer = 0;
  int q_head = 0;
  std::int64_t step = 1;        // tokens per cell, both axes
  Matrix max;                   // NaN above the diagonal, and where any value is NaN
  Matrix mean;                  // of the others
  std::int64_t num_broken = 0;  // values on or below the diagonal that are NaN
};
AttentionMap attention_map(const session::TraceSession& session, int layer, int q_head,
                           int max_side, const WorkContext& context);

// Values of such rows, from query_begin on, that are NaN where a query can see the key: Q or K hold
// a NaN or an infinity.
std::int64_t count_broken(const Matrix& rows, std::int32_t query_begin);

inline std::int64_t count_broken(const Matrix& rows, std::int32_t query_begin) {
  std::int64_t count = 0;
  for (std::int64_t r = 0; r < rows.rows; ++r)
    for (std::int64_t j = 0; j < std::min(rows.cols, query_begin + r + 1); ++j)
      count += std::isnan(rows.at(r, j));
  return count;
}

}  // namespace kvloupe::analysis
