// Curves over ranks, on log axes: largest first, with the power law through the largest and where half
// of the sum is reached. Inside a plot.
#pragma once

#include "app/panels/view_frame.h"
#include "app/state/questions/how_it_works/heavy_tail.h"

#include <implot/implot.h>

namespace kvloupe::panels {

// Ticks at 1, 2 and 5: a range of one decade or two shows more than its powers of ten.
void fine_log_ticks(ImAxis axis, double low, double high);

void tail_curve_ui(const state::HeavyTailQuestion::Curve& curve, ImU32 color);
// The power law over the ranks that it was fitted to.
void power_law_ui(DrawContext& context, const state::HeavyTailQuestion::Curve& curve);
// Left of the line lies half of the mass. Labels of several stand one above the other.
void half_ui(DrawContext& context, const state::HeavyTailQuestion::Shares& shares, ImU32 color,
             const char* what, int label_line);
// The item of a place on the axis of ranks.
std::size_t rank_at(double x, std::size_t count);

}  // namespace kvloupe::panels
