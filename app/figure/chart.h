// Curves that no view has, such as the rows of `kvloupe compare` and `kvloupe latency`, drawn without a
// display.
#pragma once

#include "app/state/view.h"

#include <string>
#include <vector>

namespace kvloupe::figure {

struct ChartLine {
  std::string name;
  std::vector<double> x, y;  // as many of each, x ascending; gaps are left out
  bool reference = false;    // what the others are compared with: dashed, without marks
};

struct Chart {
  std::string title, caption;  // the caption says of what: trace, model, cells
  std::string x_label, y_label;
  std::vector<ChartLine> lines;
  bool log_x = false, log_y = false;
  bool share = false;  // y is from 0 to 1
  int width = 1200, height = 675;
};

// Whether numbers this far apart are better seen on a log axis: all above 0, the largest 16 times the
// smallest or more.
bool spans_octaves(const std::vector<ChartLine>& lines, bool of_x);

// PNG, SVG or PDF. Throws Error{Input} where nothing can be drawn on this machine.
std::string chart_bytes(const Chart& chart, state::Format format);

}  // namespace kvloupe::figure
