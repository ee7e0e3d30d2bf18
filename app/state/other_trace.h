// A second trace, for views that draw one beside the other.
#pragma once

#include "app/state/place.h"

#include <string>

namespace kvloupe::state {

class Workspace;

// The first other trace that is open; null: there is none.
TracePtr other_trace(const Workspace& workspace);
// Why it cannot be drawn beside the place; empty where it can.
std::string why_not_beside(const OpenTrace& other, const Place& place);

}  // namespace kvloupe::state
