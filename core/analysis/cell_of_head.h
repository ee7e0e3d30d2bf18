// The cell of a run at one query head, for analyses of a head.
#pragma once

#include "core/replay/replay.h"

namespace kvloupe::analysis {

// Throws Error{Input} where the run has nothing there, or the model has no such head.
const replay::ReplayCell& cell_of_head(const replay::ReplayResult& replay,
                                       const trace::TraceInfo& info, int layer, int chunk,
                                       int q_head);

}  // namespace kvloupe::analysis
