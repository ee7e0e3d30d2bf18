// The rows start_version, start_window and start_tour, and what the last two time: subcommands that draw
// the first frame of an empty window, or the tour's first page with its picture, without a display, say
// so and end.
#pragma once

#include "app/bench/bench.h"

#include <vector>

namespace kvloupe::bench {

std::vector<Row> start_rows(const WorkContext& context);
inline constexpr const char* kFirstFrame = "first-frame";
void draw_first_frame();
inline constexpr const char* kFirstPage = "first-page";
void draw_first_page();

}  // namespace kvloupe::bench
