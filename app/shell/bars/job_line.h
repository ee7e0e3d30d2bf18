// What runs in the background, as one line with a cancel button.
#pragma once

#include "app/state/workspace.h"
#include "app/widgets/palette.h"

namespace kvloupe::shell {

void job_ui(state::Workspace& workspace, const widgets::Palette& palette);

}  // namespace kvloupe::shell
