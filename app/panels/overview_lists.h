// The cells at the two ends of layer_head_overview's order, in words: what to look at first.
#pragma once

#include "app/panels/overview_grid.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace kvloupe::panels {

struct OverviewHeadings {
  const char* worst;
  const char* best;
  // At most so many cells belong under them.
  std::size_t most_worst = SIZE_MAX, most_best = SIZE_MAX;
  const char* order = "";  // said beside both: "sorted by the gap to the oracle"
};

// Beside each other, in the room that the grid leaves below it or beside it. A click goes there.
void overview_lists_ui(DrawContext& context, const Overview& result, const Coloring& coloring,
                       const OverviewHeadings& headings);
// Below each other, beside the grid of a figure, with what the number means.
void overview_extremes_ui(DrawContext& context, const Overview& result,
                          const replay::NumberInfo& info, const Coloring& coloring,
                          const OverviewHeadings& headings);
void remark_ui(DrawContext& context, ImU32 color, const std::string& text);

}  // namespace kvloupe::panels
