// What a method is worth on a trace, averaged as `kvloupe compare` does, and over which cells: means
// over different cells are not comparable.
#pragma once

#include "core/replay/compare.h"

#include <cstdint>
#include <vector>

namespace kvloupe::analysis {

struct PhaseAverages {
  replay::CompareRow means;    // of scope "all"
  std::int64_t all_cells = 0;  // rows of all chunks and layers, averaged or dense
  replay::Places averaged;     // not dense
};

struct MethodAverages {
  PhaseAverages prefill, decode;  // without cells where the trace has no such chunk

  const PhaseAverages& of(trace::Phase phase) const {
    return phase == trace::Phase::Prefill ? prefill : decode;
  }
};

// Selected anew on `layers`; `spec` is resolved. Throws what replay() throws.
MethodAverages average_anew(const session::TraceSession& session, const selection::MethodSpec& spec,
                            const std::vector<int>& layers, const WorkContext& context);
// What a run of the trace recorded, also of a method that this version does not know. Keys kept by
// rule are empty where the run names none: earlier versions did not record them.
MethodAverages average_recorded(const session::TraceSession& session, int run,
                                const std::vector<int>& layers, const WorkContext& context);

}  // namespace kvloupe::analysis
