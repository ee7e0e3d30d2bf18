// Whether a trace has what is asked of it. Private to core/replay; free of Torch.
#pragma once

#include "core/session/session.h"
#include "core/trace/trace_types.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace kvloupe::replay {

// The layers asked for, ascending; all captured ones for an empty list. Throws Error{Input} for one
// not captured.
std::vector<int> checked_layers(const trace::TraceInfo& info, const std::vector<int>& wanted);
// The same of a recorded run, for an empty list those that it has: `select --layer` saves one alone.
std::vector<int> checked_layers_of_run(const session::TraceSession& session, int run,
                                       const std::vector<int>& wanted);
// The chunks asked for, of so many, ascending; for an empty list all that have queries. Throws Error{Input}
// for one that does not exist or has none.
std::vector<int> checked_chunks(const trace::TraceInfo& info, const std::vector<int>& wanted,
                                std::size_t num_chunks);
void check_chunk(const std::optional<int>& chunk, std::size_t num_chunks);
// Throws Error{Input} for a run that was not recorded.
const trace::RunInfo& recorded_run_of(const trace::TraceInfo& info, int run);

}  // namespace kvloupe::replay
