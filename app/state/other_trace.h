// A second trace, for views that draw one beside the other.
#pragma once

#include "app/state/open_trace.h"

namespace kvloupe::state {

class Workspace;

// The first other trace that is open; null: there is none.
TracePtr other_trace(const Workspace& workspace);

}  // namespace kvloupe::state
