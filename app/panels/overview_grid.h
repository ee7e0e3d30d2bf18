// The grid of layers and heads in the colours of one number: the same in every form of the overview.
#pragma once

#include "app/panels/view_frame.h"
#include "app/state/questions/where/layer_head_overview.h"

#include <cstddef>
#include <optional>
#include <utility>

namespace kvloupe::panels {

using Overview = state::Result<state::OverviewQuestion>;

// How a number is coloured.
struct Coloring {
  ImU32 (*color)(const widgets::Palette&, double);
  state::OverviewScale::Range range;

  Coloring(const replay::NumberInfo& info, state::OverviewScale::Range ends);
  // Of A less B: which of the two is higher.
  explicit Coloring(state::OverviewScale::Range ends);
  ImU32 at(const widgets::Palette& palette, double value) const;
};

// Makes it the place; `column` is one of the grid.
void go_to_cell(state::Workspace& workspace, const state::OverviewQuestion::Answer& answer,
                int layer, int column);

class OverviewGrid {
 public:
  // Before anything of a frame: how many grids there will be, and whether the cell that comes first by worth is framed.
  // Of layers and query heads the more numerous run along the longer side of the view. Every grid of the place is laid
  // out so, whatever the number and however many methods.
  void begin_frame(const state::Place& place, std::size_t num_grids, bool frames_first = false);
  bool layers_run_across() const { return layers_across_; }
  // Of the room there is, how much draw() will fill.
  ImVec2 size(const analysis::Overview& overview) const;
  // Fills the room there is. A click goes to the cell.
  void draw(DrawContext& context, const Overview& result, const replay::NumberInfo& info,
            const Coloring& coloring);

 private:
  struct Cells;
  ImVec2 least_cell() const;
  bool move_ui(const Cells& grid);
  void framed_ui(DrawContext& context, const Cells& grid, const Overview& result);
  void current_ui(DrawContext& context, const Cells& grid, const Overview& result);
  void pointed_ui(DrawContext& context, const Cells& grid,
                  const state::OverviewQuestion::Answer& answer);
  static void axes_ui(DrawContext& context, const Cells& grid,
                      const state::OverviewQuestion::Answer& answer);

  std::size_t num_grids_ = 1;
  bool layers_across_ = false;
  bool frames_first_ = false;
  // Layer and query head under the mouse, in the last frame and in this one.
  std::optional<std::pair<int, int>> pointed_, pointing_;
  float zoom_ = 1;
};

}  // namespace kvloupe::panels
