// What runs in the background, as one line with a cancel button.
#pragma once

#include "app/state/workspace.h"
#include "app/widgets/palette.h"

namespace kvloupe::shell {

// A sample of results that is recorded, before the other jobs; nothing while none is.
void recording_ui(state::OpenResults& results, const widgets::Palette& palette);
void job_ui(state::Workspace& workspace, const widgets::Palette& palette);

}  // namespace kvloupe::shell
