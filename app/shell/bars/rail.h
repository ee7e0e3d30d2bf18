// The rail on the left: what a person can want to know, each a workspace of the window.
#pragma once

#include "app/state/workspace.h"
#include "app/widgets/palette.h"

namespace kvloupe::shell {

void rail_ui(state::Workspace& workspace, const widgets::Palette& palette);

}  // namespace kvloupe::shell
