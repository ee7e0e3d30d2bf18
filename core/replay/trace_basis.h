// The basis that a method needs on a trace: a calibrated one, or one fitted on the trace itself.
// Private to core/analysis: needs Torch.
#pragma once

#include "core/replay/replay.h"
#include "core/selection/lanes/basis.h"

#include <optional>
#include <vector>

namespace kvloupe::replay {

// Null for a method without a basis. `layers` must be in the basis; basis=self is fitted on these
// alone, on all stored tokens, and kept with the session. Throws Error{Input}.
selection::BasisPtr basis_for(const session::TraceSession& session,
                              const selection::MethodSpec& spec, const std::vector<int>& layers,
                              const WorkContext& context);

// Leakage: fitted on the trace, or on text of which the trace holds a piece.
std::optional<BasisNote> basis_note(const session::TraceSession& session,
                                    const selection::BasisPtr& basis);

}  // namespace kvloupe::replay
