// The table of block_tables: density, recall, output error and time of the masks as they are, of
// their unions over query blocks, and over heads.
#pragma once

#include "app/panels/block_plots.h"

namespace kvloupe::panels {

// Of a result that has stages. In the window the times are asked for by a button.
void block_metrics_ui(DrawContext& context, const Tables& result);

}  // namespace kvloupe::panels
