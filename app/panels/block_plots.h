// The picture of block_tables: its stages one above the other on a common axis of key blocks, each
// with its density beside it.
#pragma once

#include "app/panels/map_plot.h"
#include "app/state/questions/how_it_works/block_tables.h"

#include <utility>

namespace kvloupe::panels {

using Tables = state::Result<state::BlockTablesQuestion>;

class BlockPlots {
 public:
  // Of a result that has stages; takes the room that is left.
  void draw(DrawContext& context, const Tables& result);

 private:
  widgets::MapTexture texture_;
  ImPlotRange x_range_, y_range_;
  std::pair<double, double> extent_{0, 0};
};

}  // namespace kvloupe::panels
