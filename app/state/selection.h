// What the user looks at: one selection drives every panel. Plain values, no widgets.
#pragma once

#include "app/state/method_choice.h"
#include "app/state/place.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

struct Selection {
  Place place;  // in the trace of its tab
  std::array<MethodChoice, 2> method;
  std::vector<MethodChoice> more;  // named beside A and B, for views that take many
  Slot shown = Slot::A;            // the slot that single-method views show
  // Options of views that differ from their defaults, by "view.option".
  std::map<std::string, std::string> options;

  const MethodChoice& choice(Slot slot) const { return method[static_cast<std::size_t>(slot)]; }
  MethodChoice& choice(Slot slot) { return method[static_cast<std::size_t>(slot)]; }
};
bool operator==(const Selection& a, const Selection& b);

// Where --goto points: "layer=3,q_head=5,chunk=12,query=1536,key=40", a span of keys "key=40-52".
struct GotoTarget {
  std::optional<int> layer, q_head, kv_head, chunk, query, window;
  std::optional<std::int32_t> key_begin, key_end;  // half-open
  std::optional<std::string> span;                 // of the trace: its keys
};
GotoTarget parse_goto(const std::string& text);  // throws Error{Usage}
// The text that leads to a place again.
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
  std::optional<Selection> back(const Selection& now);
  std::optional<Selection> forward(const Selection& now);
  bool can_go_back() const { return !past_.empty(); }
  bool can_go_forward() const { return !future_.empty(); }

 private:
  static constexpr std::size_t kDepth = 200;
  std::vector<Selection> past_, future_;
  std::string last_kind_;
};

}  // namespace kvloupe::state
