// The checks of `kvloupe validate`, one file a subject.
#pragma once

#include "core/base/cancel.h"
#include "core/trace/trace_reader.h"

namespace kvloupe::trace {

// q, k, v, lse and key_mass of one layer: presence, finite values, agreement with each other.
void check_layer(const TraceReader& reader, int layer, const WorkContext& context,
                 Validation& found);
// Candidates, flags and evictions of one run.
void check_run(const TraceReader& reader, const RunInfo& run, Validation& found);

// Novelty and probe queries, where there are any.
void check_probe(const TraceReader& reader, Validation& found);

}  // namespace kvloupe::trace
