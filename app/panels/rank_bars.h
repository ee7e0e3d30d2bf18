// Mass by true rank as bars, on a log axis: the keys that attention truly weighs, largest first,
// coloured by whether a method kept them.
#pragma once

#include "app/panels/panel.h"
#include "app/state/questions/kept/selected_vs_true.h"

#include <implot/implot.h>

#include <string>

namespace kvloupe::panels {

// What the bars of one method are drawn from.
struct RankedKeys {
  const state::SelectedVsTrueQuestion::Answer& answer;
  const state::Place& place;
  bool stale = false;
};

// The ends of the axes belong to the place: they stay when A and B are flipped.
struct RankEnds {
  double top = 1e-9, bottom = 1, ranks = 0, shown = 0;

  void include(const state::SelectedVsTrueQuestion::Answer& answer);
  double above() const;  // with room for the marks above the bars
};

class RankBars {
 public:
  // In a size that may be -1 wide. A click selects the key. What is watched and has its rank further
  // right than the plot goes is told in a line above it.
  void draw(DrawContext& context, const RankedKeys& ranked, const RankEnds& ends, const char* id,
            ImVec2 size);

 private:
  void fit(const state::Place& place, const RankEnds& ends);

  ImPlotRange ranks_;  // in view, of A and B alike
  ImPlotRange whole_;  // what they were fitted to, at this place
  std::string ranks_of_;
};

}  // namespace kvloupe::panels
