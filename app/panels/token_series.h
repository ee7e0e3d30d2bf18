// A value for each token in a plot: a line through the running mean, and a dot for each token.
#pragma once

#include <imgui.h>

#include <cstddef>
#include <vector>

namespace kvloupe::panels {

// Where more tokens are in sight they have no dots: the line is drawn alone.
inline constexpr std::size_t kMostDots = 20000;

// `means` has a value for each of `values`. What is not finite is left out; on a logarithmic axis, so is what is not above
// 0. A value above the plot has a triangle at the upper edge. Between BeginPlot and EndPlot.
void token_series_ui(const std::vector<float>& values, const std::vector<double>& means,
                     ImU32 color, bool logarithmic, bool dots = true);

}  // namespace kvloupe::panels
