// Where the user was in each trace, kept for the next start: places.json in the state folder.
#pragma once

#include "app/state/traces.h"

#include <optional>
#include <string>

namespace kvloupe::shell {

void save_place(const state::TraceTab& tab);
// Applies what was kept for the tab's file; what the trace no longer has is passed over.
void restore_place(state::TraceTab& tab);

}  // namespace kvloupe::shell
