// The control by which a view shows A, B, both, their difference or up to six methods, and what views
// that do so share.
#pragma once

#include "app/panels/view_frame.h"
#include "app/state/shown_methods.h"

#include <string>
#include <vector>

namespace kvloupe::panels {

// What the view's option says. A picture of two methods named shows both, unless it is asked for one.
state::Show show_now(const DrawContext& context, const std::string& view);
// "A | B | both | difference | up to six", as far as the view has them, and "two traces" where a second one is
// open; nothing in an exported figure.
// What follows stands beside it where there is room.
void show_ui(DrawContext& context, const std::string& view);

// Which of several others is drawn beside this trace; nothing where there is one at most.
void other_trace_ui(DrawContext& context);
// Says why the other trace is not drawn; true where it is.
bool other_ready_ui(DrawContext& context, const state::OtherPlace& other);
// Names the trace of one of two pictures.
std::vector<widgets::Chip> trace_chip(const DrawContext& context, const state::Place& place);

// The chips of A and of B, a line each, and a word where the two are the same method.
void both_chips_ui(DrawContext& context, const state::Place& place, const state::MethodFacts& a,
                   const state::MethodFacts& b);
void same_method_ui(DrawContext& context, const state::MethodChoice& a,
                    const state::MethodChoice& b);
// Who kept what: "A only", "B only", "both", "neither".
std::vector<widgets::LegendItem> kept_by_legend(const widgets::Palette& palette);
// "A", "B", "3" of the methods drawn.
std::string letter_of_method(std::size_t index);
// "needle: 19/22, recall 0.931" of what is told in this order: what has no room at the end is left out.
std::string as_many_as_fit(const std::vector<std::string>& numbers, float width);
// The head of one of several, with what says most first: "A  quoka:budget_tokens=256   needle: 19/22, 256 kept".
void method_line_ui(DrawContext& context, std::size_t index, const state::MethodChoice& method,
                    const std::vector<std::string>& numbers);

// What stands above a plot is as high as it was for the other method, so that flipping A and B moves
// nothing below it.
class SteadyHead {
 public:
  void begin() { top_ = ImGui::GetCursorScreenPos().y; }
  // `key` says what the height depends on beside the method shown.
  void end(const std::string& key);

 private:
  std::string key_;
  float top_ = 0, tallest_ = 0;
};

}  // namespace kvloupe::panels
