// Where the user was in each trace, kept for the next start: places.json in the state folder.
#pragma once

#include "app/state/traces.h"

#include <string>
#include <vector>

namespace kvloupe::shell {

// What is kept of a tab, as text: two are equal when nothing has changed.
struct KeptPlace {
  std::string trace;
  std::string json;  // place, methods, options
  bool operator==(const KeptPlace&) const = default;
};
KeptPlace place_of(const state::TraceTab& tab);

// From any thread, and beside other windows.
void save_places(const std::vector<KeptPlace>& places);
// Applies what was kept for the tab's file; what the trace no longer has is passed over.
void restore_place(state::TraceTab& tab);

}  // namespace kvloupe::shell
