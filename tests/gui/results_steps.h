// Results of an evaluation for tests of the window and of its state.
#pragma once

#include "app/state/workspace.h"

#include <string>

namespace kvloupe::test {

// Made up: four methods, two tasks (tests/tools/make_results.py).
const std::string& results_file();
// Opens them, whatever else is open.
void open_results(state::Workspace& workspace);

}  // namespace kvloupe::test
