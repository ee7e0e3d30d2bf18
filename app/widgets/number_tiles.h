// A few numbers that answer a question at a glance, each above its name.
#pragma once

#include "app/widgets/palette.h"

#include <imgui.h>

#include <string>
#include <vector>

namespace kvloupe::widgets {

struct NumberTile {
  std::string value, name;
  ImU32 color = 0;          // 0: as text
  std::string explained{};  // tooltip
};

// In one row; what has no room goes on below.
void number_tiles_ui(const Palette& palette, const std::vector<NumberTile>& tiles);

}  // namespace kvloupe::widgets
