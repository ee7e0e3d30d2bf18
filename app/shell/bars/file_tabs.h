// What is open, as tabs in the menu bar: the traces, then results of an evaluation.
#pragma once

#include "app/state/workspace.h"
#include "app/widgets/palette.h"

namespace kvloupe::shell {

// True: the trace that is active now is to be closed. `in_results`: the workspace of results is shown.
bool file_tabs_ui(state::Workspace& workspace, bool in_results, const widgets::Palette& palette);

}  // namespace kvloupe::shell
