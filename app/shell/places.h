// Between a tab and what is kept of it (places_file.h).
#pragma once

#include "app/shell/places_file.h"
#include "app/state/traces.h"

namespace kvloupe::shell {

KeptPlace place_of(const state::TraceTab& tab);
// Applies what was kept for the tab's file; what the trace no longer has is passed over.
void restore_place(state::TraceTab& tab);

}  // namespace kvloupe::shell
