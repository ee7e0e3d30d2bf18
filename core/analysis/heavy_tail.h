// How few queries and keys carry the attention of one head in one chunk (QuoKA, Figures 2a and 3).
#pragma once

#include "core/analysis/power_tail.h"
#include "core/analysis/pyramid.h"
#include "core/base/cancel.h"
#include "core/session/session.h"

#include <cstdint>
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

}  // namespace kvloupe::analysis
