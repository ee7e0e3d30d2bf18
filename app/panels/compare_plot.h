// The methods of a comparison as points: how much of what is watched each keeps against its mass recall.
#pragma once

#include "app/panels/view_frame.h"
#include "app/state/questions/how_much/method_compare.h"

#include <string>
#include <vector>

namespace kvloupe::panels {

// Below the table, where there is room; without watched keys the overlap with the true top keys stands in
// their place. Nothing where fewer than two methods have both numbers.
void compare_plot_ui(DrawContext& context,
                     const state::Result<state::MethodCompareQuestion>& result,
                     const std::vector<std::string>& labels);

}  // namespace kvloupe::panels
