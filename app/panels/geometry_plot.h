// One plot of queries and keys of a head in two or three principal components.
#pragma once

#include "app/panels/geometry_colors.h"
#include "app/panels/lasso.h"
#include "app/panels/query_scatter.h"

#include <implot3d/implot3d.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::panels {

// What a lasso holds, as positions.
struct Picked {
  std::vector<std::int32_t> queries, keys;
  bool closed = false;  // one was drawn, around something or nothing
  bool empty() const { return queries.empty() && keys.empty(); }
};

// What is in view of plots that show the same points: one is moved, turned or zoomed, and all are.
struct GeometryView {
  ImPlotRange x, y;  // of two components
  ImPlot3DQuat rotation;
  std::array<ImPlotRange, 3> box;  // of three
  bool is_turned = false;          // rotation and box are known
};

class GeometryPlot {
 public:
  // What is in view of a plot of two components.
  struct Frame {
    ImPlotRange x, y;
  };
  struct Spec {
    const char* id = "";
    bool queries = true, keys = true;  // what it shows
    ImVec2 size{-1, -1};
    bool lasso = false;            // the mouse draws a lasso
    GeometryView* view = nullptr;  // shared; null: the plot has its own
    const Frame* frame = nullptr;  // drawn: where another plot looks closer
    bool names = true;             // of the query that attends most to the watched keys
    // Key 0 lies far from the others in many heads: it is no part of the frame.
    bool without_sink = false;
    // Of method B: the queries that it asks are ringed, too, in the colours of A and B.
    const Geometry* beside = nullptr;
  };
  // Returns what a lasso took in this frame.
  Picked draw(DrawContext& context, const Geometry& result, const Wanted& wanted, const Spec& spec);

  // The room for points in a plot of this size, beside axes and labels.
  static ImVec2 inside_of(ImVec2 size);

  // What was in view last.
  const Frame& shown() const { return shown_; }

 private:
  // Where the dots stand on the screen.
  struct Canvas {
    ImDrawList* draw = nullptr;
    ImVec2 low, high;  // corners
    bool hovered = false;
    std::vector<ImVec2> queries, keys, means;
    // Those of the watched keys that are not among the keys, by position.
    std::vector<std::pair<std::int32_t, ImVec2>> watched;
    std::vector<ImVec2> every_key;  // by position, when a lasso is closed
    // Three components: from 0, far away, to 1. Else empty.
    std::vector<float> query_depth, key_depth;
    std::vector<Circle> titles;  // where numbers and titles of the axes may stand
  };
  template <typename At>
  static void place(const Geometry& result, const Spec& spec, const At& at, Canvas& canvas);
  Picked draw_flat(DrawContext& context, const Geometry& result, const Wanted& wanted,
                   const Spec& spec);
  Picked draw_solid(DrawContext& context, const Geometry& result, const Wanted& wanted,
                    const Spec& spec);
  void fit(const Geometry& result, const Spec& spec, ImVec2 inside);
  static void take_view(const GeometryView& view);
  static void give_view(GeometryView& view);
  static void sink_at_edge_ui(ImDrawList* draw, const widgets::Palette& palette,
                              const Geometry& result, const Canvas& canvas);
  Picked dots_ui(DrawContext& context, const Geometry& result, const Wanted& wanted,
                 const Spec& spec, const Canvas& canvas);

  Lasso lasso_;
  Frame shown_;
  ImVec2 room_, inside_;  // of the last frame: of the plot, and of its points
  ContentFit fit_{3};     // the first frames do not know the plot's shape yet
};

}  // namespace kvloupe::panels
