// The methods of a comparison as points: how much of what is watched each keeps against its mass recall.
#pragma once

#include "app/panels/view_frame.h"
#include "app/state/questions/how_much/method_compare.h"

#include <string>
#include <vector>

namespace kvloupe::panels {

// What it needs below the table at least, with its heading; 0 where fewer than two methods have both numbers.
float compare_plot_height(const DrawContext& context,
                          const state::Result<state::MethodCompareQuestion>& result,
                          const std::vector<std::string>& labels);
// Below the table or beside it; a figure has it where there is room. Without watched keys the overlap with the true top
// keys stands in their place.
void compare_plot_ui(DrawContext& context,
                     const state::Result<state::MethodCompareQuestion>& result,
                     const std::vector<std::string>& labels, bool beside);

}  // namespace kvloupe::panels
