// One choice of a few that stand side by side: all of them are seen, and the one chosen is filled.
#pragma once

#include "app/widgets/palette.h"

#include <optional>
#include <string>
#include <vector>

namespace kvloupe::widgets {

struct Segment {
  std::string text;         // its id, too
  std::string brief = {};   // in place of `text` where room is short; empty: `text`
  std::string explained{};  // tooltip
  ImU32 color = 0;          // when chosen; 0: the accent
};
// Of the room that is left. The index of the one pressed.
std::optional<std::size_t> segmented_ui(const Palette& palette, const char* id,
                                        const std::vector<Segment>& segments, std::size_t chosen);

}  // namespace kvloupe::widgets
