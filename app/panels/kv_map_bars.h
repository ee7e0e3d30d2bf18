// What stands beside the rows of a KV map: one bar a chunk, on the map's own axis of chunks.
#pragma once

#include "app/panels/view_frame.h"
#include "app/state/questions/kept/kv_difference.h"
#include "app/state/questions/kept/kv_map.h"

#include <implot/implot.h>

namespace kvloupe::panels {

// The share of true attention mass that the kept keys carry.
void recall_bars_ui(DrawContext& context, const state::Result<state::KvMapQuestion>& map,
                    const state::Result<state::RecallQuestion>& recall, ImPlotRange& y_range,
                    ImVec2 size, bool x_axis);
// Of the keys that A or B kept: those of A only, of both, of B only.
void kept_by_bars_ui(DrawContext& context, const state::Result<state::KvDifferenceQuestion>& result,
                     ImPlotRange& y_range, ImVec2 size);

}  // namespace kvloupe::panels
