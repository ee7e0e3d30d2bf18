// Where the user was in each trace, kept for the next start: places.json in the state folder.
#pragma once

#include "app/state/view_state.h"

#include <optional>
#include <string>
#include <vector>

namespace kvloupe::shell {

// From any thread, and beside other windows.
void save_places(const std::vector<state::ViewState>& places);
// Nothing where the file has no place of the trace, or is no file of places.
std::optional<state::ViewState> find_place(const std::string& trace);

}  // namespace kvloupe::shell
