// The checks of `kvloupe validate`, one file a subject.
#pragma once

#include "core/base/cancel.h"
#include "core/trace/trace_reader.h"

#include <functional>
#include <set>

namespace kvloupe::trace {

// q, k, v, lse and key_mass of one layer: presence, finite values, agreement with each other.
void check_layer(const TraceReader& reader, int layer, const WorkContext& context,
                 Validation& found);
// Its parts. check_rows: q, k and v are there and can be read. It gives the KV heads of which some query or key has a value
// that is not finite: the others take these, for which nothing derived can be checked. They presume a plain softmax.
using BrokenHeads = std::set<int>;
BrokenHeads check_rows(const TraceReader& reader, int layer, const WorkContext& context,
                       Validation& found);
void check_lse(const TraceReader& reader, int layer, const BrokenHeads& broken,
               const WorkContext& context, Validation& found);
void check_key_mass(const TraceReader& reader, int layer, const BrokenHeads& broken,
                    const WorkContext& context, Validation& found);
// Candidates, flags and evictions of one run.
void check_run(const TraceReader& reader, const RunInfo& run, Validation& found);

// Novelty, where there is any.
void check_losses(const TraceReader& reader, Validation& found);
// Probe queries, where there are any.
void check_probe(const TraceReader& reader, Validation& found);
// The most probable tokens and the drift, where there are any.
void check_next_tokens(const TraceReader& reader, Validation& found);

// Runs one check; a part that cannot be read at all is its defect. Throws Error only when cancelled.
void check_guarded(Validation& found, const std::function<void()>& check);

}  // namespace kvloupe::trace
