// What is said of a key alike whether its method was run again or its sets are those recorded. Private
// to core/replay: needs Torch.
#pragma once

#include "core/replay/stage_runs.h"

#include <cstdint>
#include <vector>

namespace kvloupe::replay {

// Whether the key was kept, and how much attention it truly receives. layer, chunk, row, layout and key
// are filled in. Throws Error{Input} for a key that is no candidate.
void describe(const CellRun& run, Explanation& why);

// What the key's unit was given where units were ranked: score, cut, rank among keys, unit and rivals.
// The evidence has the key.
void describe_score(const selection::RowEvidence& evidence, const CellRun& run, Explanation& why);

// The queries with most attention on the key. `sampled`: the chunk rows that stand for the chunk, per
// query head; empty: not known, or all of them do.
void add_voters(const CellRun& run, const std::vector<std::vector<std::int32_t>>& sampled,
                Explanation& why);

}  // namespace kvloupe::replay
