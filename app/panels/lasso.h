// A closed line that the mouse draws around dots of a plot.
#pragma once

#include "app/widgets/palette.h"

#include <imgui.h>

#include <vector>

namespace kvloupe::panels {

class Lasso {
 public:
  // Of the plot just drawn, while its mouse is the lasso's. True in the frame in which the line is
  // closed, which then holds() answers for.
  bool update(ImDrawList* draw, const widgets::Palette& palette, bool hovered);
  bool holds(ImVec2 point) const;             // by the even-odd rule
  bool is_drawn() const { return drawing_; }  // the button is held since it began

 private:
  std::vector<ImVec2> line_;
  bool drawing_ = false;
};

}  // namespace kvloupe::panels
