// Explains what the mouse is over. Who asks for a tooltip only gives the words; when it appears and
// where is decided here: after the mouse has been over the thing for a while, beside the thing, and off
// every warning.
#pragma once

#include "app/widgets/palette.h"

#include <imgui.h>

#include <functional>
#include <string>
#include <vector>

namespace kvloupe::widgets {

inline constexpr double kTooltipWait = 0.4;  // seconds

struct TooltipLine {
  std::string text;
  ImU32 mark = 0;        // a square of this colour before it; 0: none
  bool is_hint = false;  // what a click does: no part of the words
};

// Of the item drawn last, or of the plot or window under the mouse; while the mouse is over it, every
// frame. The last one that is asked for in a frame counts.
void tooltip(const char* format, ...) IM_FMTARGS(1);
void tooltip(std::vector<TooltipLine> lines);
// Of another form; what `draw` needs must live until the end of the frame.
void tooltip(float width, std::function<void()> draw);

// How many were asked for in this frame, and the words of the last one.
int tooltips_asked();
const std::string& tooltip_words();

// What no tooltip of this frame covers. Text in the palette's colours of warnings is kept clear anyway.
void keep_clear(ImVec2 from, ImVec2 to);
void keep_clear_if_warning(ImU32 ink, ImVec2 from, ImVec2 to);

// At the end of the frame, over all.
void draw_tooltip(const Palette& palette);
// One will appear although the mouse rests.
bool tooltip_waits();

// Where a tooltip of this size stands. Of the places around `thing` it is one inside `room` and off
// `clear`, if there is one, and `side`, where it stood before, if that is as good as any.
struct TooltipRoom {
  ImVec2 room_from, room_to;
  ImVec2 thing_from, thing_to, mouse;
  std::vector<std::pair<ImVec2, ImVec2>> clear;
};
ImVec2 place_tooltip(const TooltipRoom& room, ImVec2 size, int& side);

}  // namespace kvloupe::widgets
