// The chart of the view latency: the parts of one or two methods and dense attention, as bars.
#pragma once

#include "app/panels/panel.h"
#include "app/state/questions/how_much/latency.h"

#include <vector>

namespace kvloupe::panels {

// Of the current cell alone: a time measured in another cell is never shown here.
using Latency = state::Result<state::LatencyQuestion>;

struct TimedMethod {
  state::Slot slot = state::Slot::A;
  Latency latency;
};

// A group of bars a part, a bar in it for each method, in the colour of its slot; those of dense attention in
// the colour of the chunk. A bar's length is the median, its whisker the quartiles, and the line across
// `attend` the least that this machine needs for what was kept. Each has an answer. Takes `height` where
// that is enough for the bars.
void latency_chart_ui(DrawContext& context, const std::vector<TimedMethod>& timed, float height);

}  // namespace kvloupe::panels
