// Where a closer plot of the queries lies in the plot of queries and keys that it belongs to.
#pragma once

#include "app/panels/geometry_colors.h"

#include <imgui.h>
#include <implot/implot.h>

namespace kvloupe::panels {

// What is in view of a plot of two components.
struct GeometryFrame {
  ImPlotRange x, y;
};
// All of a box, one unit as long on both axes of a plot of this shape. What room is left lies around it,
// or above and right of it.
GeometryFrame frame_of(const state::GeometryQuestion::Box& box, double aspect,
                       bool low_left = false);

// A corner of the plot, in pixels. It is found for the points and the room alone, so that it stays while
// the plot is moved and another method is shown.
struct GeometryInset {
  bool right = false, lower = false;
  ImVec2 size;
  // It shows the queries much larger, hides none of them, no watched key and hardly another one, and does
  // not touch the queries that it shows.
  bool fits = false;

  // Its upper left in a plot with these corners.
  ImVec2 at(ImVec2 low, ImVec2 high) const;
};
// The largest that fits a plot whose points lie low and left. `inside`: the room for points, without axes
// and labels.
GeometryInset inset_of(const Geometry& result, ImVec2 inside);

}  // namespace kvloupe::panels
