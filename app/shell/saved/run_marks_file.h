// The names and pins of runs in the session of their trace (trace_session.h).
#pragma once

#include "app/state/traces.h"

#include <filesystem>

namespace kvloupe::shell {

// What is damaged there is passed over. Throws Error{Input}: the file is no session.
state::RunMarks load_run_marks(const std::filesystem::path& trace);
// Those that changed between the two; another window's stay. From any thread. Throws Error{Input}.
void save_run_marks(const std::filesystem::path& trace, const state::RunMarks& before,
                    const state::RunMarks& now);

}  // namespace kvloupe::shell
