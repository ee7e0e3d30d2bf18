// The parts of aqua_lanes: its map, bars and curves.
#pragma once

#include "app/panels/map_plot.h"
#include "app/state/questions/how_it_works/aqua_lanes.h"

namespace kvloupe::panels {

using Lanes = state::Result<state::AquaLanesQuestion>;

ImU32 loss_color(const widgets::Palette& palette, analysis::LaneChoice choice);

// Query heads down, lanes across, with the border of static slicing and of what is stored.
void lane_map_ui(DrawContext& context, const Lanes& result, widgets::MapTexture& texture,
                 ImVec2 size);
// Two bars a query head: the method and its twin with as many lanes.
void score_errors_ui(DrawContext& context, const Lanes& result, ImVec2 size);
// Loss against lanes kept of the keys, or of the group's queries, in one basis.
void loss_plot_ui(DrawContext& context, const Lanes& result, std::size_t basis, bool of_keys,
                  ImVec2 size);

// How far the largest lanes of queries and keys are leading directions: a row of plots for rotated and
// one for stored vectors, a plot for each number of largest lanes.
void lane_overlaps_ui(DrawContext& context, const Lanes& result);

}  // namespace kvloupe::panels
