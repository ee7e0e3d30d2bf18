// The files that a chart of a command is written to: --png, --svg and --pdf.
#pragma once

#include "app/cli/command.h"
#include "app/figure/chart.h"

#include <string>
#include <utility>
#include <vector>

namespace kvloupe::cli {

struct ChartFiles {
  std::string png, svg, pdf;

  bool any() const { return !(png + svg + pdf).empty(); }
  bool is_printed() const { return png == "-" || svg == "-" || pdf == "-"; }
  // By option; one that was not given has an empty name.
  std::vector<std::pair<std::string, std::string>> named() const;
};

// `what`: as in "also draw WHAT to this file".
void add_chart_files(Command& command, ChartFiles& files, const std::string& what);
// Throws as figure::chart_bytes, and Error{Input} where a file cannot be written.
void write_chart(const figure::Chart& chart, const ChartFiles& files);

}  // namespace kvloupe::cli
