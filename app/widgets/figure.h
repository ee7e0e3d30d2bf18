// The parts that every view shares: its head (what is shown, of what), legend, states and small
// marks.
#pragma once

#include "app/widgets/fonts.h"
#include "app/widgets/palette.h"
#include "app/widgets/tooltip.h"

#include <imgui.h>

#include <string>
#include <vector>

namespace kvloupe::widgets {

struct Chip {
  std::string text;
  ImU32 color = 0;          // 0: neutral
  std::string explained{};  // tooltip
  std::string brief{};      // in place of `text` where room is short; empty: `text`
};

// Title and caption (figures only, unless the title is empty) and a row of chips.
void figure_head_ui(const Palette& palette, bool figure, const std::string& title,
                    const std::string& subtitle, const std::string& caption,
                    const std::vector<Chip>& chips);

struct LegendItem {
  std::string text;
  ImU32 color = 0;
  enum class Shape {
    Square,
    Dot,
    Ring,
    Line,
    Triangle,
    Diamond,
    Frame,
    Edges,
    Evicted  // a square, hatched below
  } shape = Shape::Square;
  bool operator==(const LegendItem&) const = default;
};
void legend_ui(const Palette& palette, const std::vector<LegendItem>& items);

// While it lives figures are drawn without some of their parts.
struct FigureParts {
  bool head = true;  // title, caption and chips
  // Where title, caption and chips end is written here, in pixels from the page's top.
  float* head_end = nullptr;
  // Legends are added here, each item once, instead of being drawn.
  std::vector<LegendItem>* legends = nullptr;
};
// Whether the legend is of several panels: then it says nothing that is of one alone.
bool shares_legend();
class FigureScope {
 public:
  explicit FigureScope(const FigureParts& parts);
  ~FigureScope();
  FigureScope(const FigureScope&) = delete;
  FigureScope& operator=(const FigureScope&) = delete;

 private:
  FigureParts before_;
};

// A rectangle of what happened to keys. In the colour of the evicted it is hatched.
void key_rect(ImDrawList* draw, const Palette& palette, ImVec2 from, ImVec2 to, ImU32 color,
              float rounding = 0);
// Hatches the evicted among the pixels of a map, `width` of them in a row.
void hatch_pixels(const Palette& palette, int width, std::vector<ImU32>& pixels);

// A bar of the colour scale with its ends and unit, inline.
void color_scale_ui(const Palette& palette, ImU32 (*color)(const Palette&, double),
                    const std::string& low, const std::string& high, const std::string& unit,
                    float width);

// States in place of a view. Each fills the space that is left.
void empty_ui(const Palette& palette, const std::string& text);
void error_ui(const Palette& palette, const std::string& text);
// The same with a button; true when the user wants it tried again.
bool failed_ui(const Palette& palette, const std::string& text);
void loading_ui(const Palette& palette, const std::string& text);
// A small sign in the corner of a view that shows the last result while a new one is computed.
void stale_ui(const Palette& palette);

// A dialog, the palette, a list, a menu.
bool popup_is_open();
// In a popup that opens with the keyboard in a text field: one Escape closes it, not two.
void escape_closes_popup();

void text_colored(ImU32 color, const std::string& text);
void text_wrapped(ImU32 color, const std::string& words);
// Cuts the end to fit the width.
std::string elided(const std::string& text, float width);
// The same for a label of parts with two spaces between them: the last part, which tells it from the
// others of a list, stays, and what stands before it is cut.
std::string elided_label(const std::string& label, float width);

// A horizontal share bar inside the current line: part of 1 filled.
void share_bar_ui(const Palette& palette, double share, ImU32 color, float width, float height);

}  // namespace kvloupe::widgets
