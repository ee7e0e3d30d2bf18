// How a sample of an evaluation that has no trace gets one: now, in the background, or by a command in a terminal.
#pragma once

#include "app/panels/panel.h"
#include "app/state/open_results.h"

namespace kvloupe::panels {

// The button in the sample's row, and what it opens.
void record_ui(DrawContext& context, const state::ReadResults& results,
               const trace::ResultSample& sample);

}  // namespace kvloupe::panels
