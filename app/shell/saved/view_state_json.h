// The state of a view as JSON: the window's own files, and what `export --state` writes.
#pragma once

#include "app/state/view_fields.h"

#include <nlohmann/json_fwd.hpp>

namespace kvloupe::shell {

// {"trace": path, "goto": text, "methods": [A, B, ..], "options": {"view.option": value}, ..}: the
// fields of these carriers by name (view_fields.h), without what is the default.
nlohmann::ordered_json json_of_state(const state::ViewState& what,
                                     unsigned carriers = state::kKept);
// What is missing, of another kind or not understood is the default.
state::ViewState state_of_json(const nlohmann::ordered_json& json,
                               unsigned carriers = state::kKept);

}  // namespace kvloupe::shell
