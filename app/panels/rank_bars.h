// Mass by true rank as bars, on a log axis: the keys that attention truly weighs, largest first,
// coloured by whether a method kept them.
#pragma once

#include "app/panels/panel.h"
#include "app/state/questions/kept/selected_vs_true.h"

#include <implot/implot.h>

#include <string>
#include <vector>

namespace kvloupe::panels {

// What the bars of one method are drawn from.
struct RankedKeys {
  const state::SelectedVsTrueQuestion::Answer& answer;
  const state::Place& place;
  bool stale = false;
};

// The ends of the axes belong to the place: they stay when A and B are flipped.
class RankEnds {
 public:
  // Of an answer that outlives this.
  void include(const state::SelectedVsTrueQuestion::Answer& answer);
  // The share at the foot of the bars, below all of the first `last` ranks.
  double bottom(double last) const;
  // The share at the top, with room for the marks above the bars.
  double above(double bottom) const;

  double ranks = 0, shown = 0;  // all that there are, and what is in view at first

 private:
  double top_ = 1e-9;
  std::vector<const state::SelectedVsTrueQuestion::Answer*> answers_;
};

class RankBars {
 public:
  // Of one method; or of two that rank the same keys: what each kept stands in a lane below the bars.
  // In a size that may be -1 wide. A click selects the key. A line above it counts the
  // wastes and the watched keys whose ranks lie further right than the plot goes.
  void draw(DrawContext& context, const std::vector<RankedKeys>& methods, const RankEnds& ends,
            const char* id, ImVec2 size);

 private:
  void fit(const state::Place& place, const RankEnds& ends);

  ImPlotRange ranks_;  // in view, of A and B alike
  ImPlotRange whole_;  // what they were fitted to, at this place
  std::string ranks_of_;
};

}  // namespace kvloupe::panels
