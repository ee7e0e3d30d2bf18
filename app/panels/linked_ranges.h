// Ranges of two traces that show the same tokens: the one that was moved leads, the other follows.
#pragma once

#include "app/state/questions/kept/aligned_traces.h"

#include <implot/implot.h>

#include <functional>

namespace kvloupe::panels {

// How positions of one axis lead to the other, and how long the axes are.
struct AxisLink {
  std::function<double(double, state::Side)> in_b, in_a;
  double length_a = 0, length_b = 0, least = 1;  // no range is shorter than `least`
};
AxisLink keys_of(const state::AlignedTraces& aligned);
AxisLink chunks_of(const state::AlignedTraces& aligned, const trace::TraceInfo& a,
                   const trace::TraceInfo& b);

class LinkedRanges {
 public:
  // Once a frame, before the plots.
  void follow(const AxisLink& link, ImPlotRange& a, ImPlotRange& b);

 private:
  ImPlotRange last_a_, last_b_;
};

}  // namespace kvloupe::panels
