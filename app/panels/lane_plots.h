// The parts of aqua_lanes: its map, bars and curves, and its numbers as a table.
#pragma once

#include "app/panels/map_plot.h"
#include "core/analysis/lane_report.h"

#include <string>
#include <vector>

namespace kvloupe::panels {

ImU32 loss_color(const widgets::Palette& palette, analysis::LaneChoice choice);

// Query heads down, lanes across, with the border of static slicing and of what is stored.
void lane_map_ui(DrawContext& context, const analysis::LaneReport& report,
                 widgets::MapTexture& texture, ImVec2 size);
// Two bars a query head: the method and its twin with as many lanes.
void score_errors_ui(DrawContext& context, const analysis::LaneReport& report, ImVec2 size);
// Loss against lanes kept of the keys, or of the group's queries, in one basis.
void loss_plot_ui(DrawContext& context, const analysis::LaneReport& report, std::size_t basis,
                  bool of_keys, ImVec2 size);

// Everything that is drawn, exactly, one number a row.
std::vector<std::string> lane_columns();
Table lane_table(const analysis::LaneReport& report);

}  // namespace kvloupe::panels
