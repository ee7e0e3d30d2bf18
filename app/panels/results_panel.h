// What the views of an evaluation share: cells of scores, and the samples of one of them.
#pragma once

#include "app/panels/view_frame.h"
#include "app/state/questions/results/of_results.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace kvloupe::panels {

// A panel that shows results, and no trace.
class ResultsPanel : public Panel {
 protected:
  bool can_draw(DrawContext& context) final;
  void draw_trace(DrawContext& context) final;
  virtual void draw_results(DrawContext& context) = 0;
};

// The file, its model and how many samples it has.
void results_head_ui(DrawContext& context, const std::string& title, const std::string& measured);

// A map of scores: names at its left and above it, in each cell a number and what is known of it.
struct ScoreMap {
  struct Cell {
    const analysis::ScoreCell* scores = nullptr;
    bool fills_row = false;  // the row has this cell alone, as wide as all columns
    double tone = 0;         // of the colour: 0 to 1; NaN: it has none
    std::string number;      // "0.83"
    std::string beside;      // "0.61 to 0.94"; where there is room
    std::string listed_as;   // of its samples: "quoka 256, kvloupe_niah"
  };
  const char* id = "";
  const char* view = "";
  const std::vector<std::string>* rows = nullptr;
  std::string names_columns;  // before their names: "depth"
  std::vector<std::string> columns;
  std::vector<Cell> cells;                          // by row, then column
  std::function<std::string(const Cell&)> explain;  // the tooltip of a cell
  bool stale = false;     // of a file or a choice before: its cells cannot be clicked
  bool diverges = false;  // its colours: from bad through neutral to good
  int strong_row = -1;    // the one that others are compared with
};
// The height of a map of so many rows in the room there is.
float score_map_height(const DrawContext& context, std::size_t rows, float room);
// Fills the size. A click on a cell lists its samples; one on a row's name compares the others with it, where
// `methods` are those of the rows.
void score_map_ui(DrawContext& context, const ScoreMap& map, ImVec2 size,
                  const std::vector<std::string>* methods = nullptr);

// Lists the samples of a cell.
void list_samples(DrawContext& context, const char* view, const ScoreMap::Cell& cell);
// The samples of the cell that is listed, as a table; nothing where none was, and in figures. A click on a
// sample opens its trace.
void samples_ui(DrawContext& context, const char* view);
// The height that samples_ui() takes of this room, which a map of so many rows shares.
float samples_height(const DrawContext& context, const char* view, std::size_t rows, float room);

}  // namespace kvloupe::panels
