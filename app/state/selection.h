// What the user looks at: one selection drives every panel. Plain values, no widgets.
#pragma once

#include "app/state/method_choice.h"
#include "app/state/place.h"
#include "app/state/view_state.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

// The state of a view (view_state.h) on a trace that is open: its methods and its place are known.
struct Selection : ViewSettings {
  Place place;  // in the trace of its tab
  std::array<MethodChoice, 2> method;
  std::vector<MethodChoice> more;  // named beside A and B, for views that take many

  const MethodChoice& choice(Slot slot) const { return method[static_cast<std::size_t>(slot)]; }
  MethodChoice& choice(Slot slot) { return method[static_cast<std::size_t>(slot)]; }
  bool operator==(const Selection&) const = default;
};

// The words that lead to a place again.
GotoTarget target_of(const Place& place);
std::string goto_text(const Place& place);

// Throws Error{Input} for a place that is not in the trace.
void apply_goto(Place& place, const GotoTarget& target);
// To the nearest place that the trace has.
void clamp(Place& place);
// Where a newly opened trace begins: at the place of `like`, as far as it exists there too.
Selection initial_selection(const TracePtr& trace, const Selection* like);

// Back and forward through what was looked at. Steps of one kind in a row (scrubbing) count as one.
class SelectionHistory {
 public:
  void push(const Selection& before, const std::string& kind);
  // False where there is no such step.
  bool back(Selection& now) { return step(past_, future_, now); }
  bool forward(Selection& now) { return step(future_, past_, now); }
  // The same steps in a later reading of the same trace.
  void move_to(const TracePtr& trace);
  bool can_go_back() const { return !past_.empty(); }
  bool can_go_forward() const { return !future_.empty(); }

 private:
  static constexpr std::size_t kDepth = 200;
  bool step(std::vector<Selection>& from, std::vector<Selection>& to, Selection& now);

  std::vector<Selection> past_, future_;
  std::string last_kind_;
};

}  // namespace kvloupe::state
