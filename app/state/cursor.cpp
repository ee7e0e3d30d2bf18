#include "app/state/cursor.h"

#include "app/state/sight.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvloupe::state {

Cursor::Through::Through(Cursor& cursor, Sight& sight) : cursor_(cursor) {
  if (sight.lock) cursor.traces_.look_at(sight.lock->tab);
  cursor.sight_ = &sight;
  const TraceTab* tab = std::as_const(cursor.traces_).ready();
  cursor.seen_ = tab != nullptr ? sight.seen(tab->selection) : Selection{};
}

Cursor::Through::~Through() {
  cursor_.traces_.look_at(Traces::kActive);
  cursor_.sight_ = nullptr;
  cursor_.seen_ = {};
}

const Selection& Cursor::selection() const {
  if (sight_ != nullptr) return seen_;
  static const Selection none;
  const TraceTab* tab = std::as_const(traces_).ready();
  return tab != nullptr ? tab->selection : none;
}

void Cursor::change(const std::string& kind, const std::function<void(Selection&)>& how) {
  TraceTab* tab = traces_.ready();
  if (tab == nullptr) return;
  Selection next = tab->selection;
  if (sight_ != nullptr) sight_->enter(next);
  how(next);
  if (sight_ != nullptr) sight_->leave(next, tab->selection.shown);
  clamp(next.place);
  if (next != tab->selection) {
    tab->history.push(tab->selection, kind);
    tab->selection = std::move(next);
  }
  if (sight_ != nullptr) seen_ = sight_->seen(tab->selection);
}

void Cursor::set_chunk(int chunk) {
  change("chunk", [&](Selection& s) { s.place.chunk = chunk; });
}

void Cursor::set_layer(int layer) {
  change("layer", [&](Selection& s) { s.place.layer = layer; });
}

void Cursor::step_layer(int by) {
  if (place().empty()) return;
  const std::vector<int>& layers = place().info().layers;
  const auto at = std::find(layers.begin(), layers.end(), place().layer) - layers.begin();
  const auto last = static_cast<std::ptrdiff_t>(layers.size()) - 1;
  set_layer(layers[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(at + by, 0, last))]);
}

void Cursor::set_q_head(int q_head) {
  change("head", [&](Selection& s) { s.place.q_head = q_head; });
}

void Cursor::set_device(const std::string& id) {
  change("device", [&](Selection& s) { s.place.device = id; });
}

void Cursor::set_keys(const trace::KeySet& keys) {
  change("keys", [&](Selection& s) {
    s.place.keys = keys;
    s.place.watches_nothing = false;
  });
}

void Cursor::watch_nothing() {
  change("keys", [](Selection& s) {
    s.place.keys = {};
    s.place.watches_nothing = true;
  });
}

void Cursor::go_to(const GotoTarget& target) {
  if (place().empty()) return;
  Place next = place();
  apply_goto(next, target);
  change("", [&](Selection& s) { s.place = next; });
}

void Cursor::set_method(Slot slot, const std::string& spec) {
  if (!place().empty()) set_method(slot, choice_of_spec(spec, *place().trace));
}

void Cursor::set_method(Slot slot, const MethodChoice& choice) {
  if (TraceTab* tab = traces_.ready()) tab->remember_tried(choice);
  change(fmt::format("method {}", letter_of(slot)), [&](Selection& s) { s.choice(slot) = choice; });
}

void Cursor::set_run(Slot slot, int run) {
  if (place().empty()) return;
  for (const trace::RunInfo& info : place().info().runs)
    if (info.id == run) set_method(slot, choice_of_run(info, *place().trace));
}

void Cursor::set_more_methods(const std::vector<MethodChoice>& more) {
  change("more methods", [&](Selection& s) { s.more = more; });
}

void Cursor::swap_methods() {
  change("swap", [](Selection& s) { std::swap(s.method[0], s.method[1]); });
}

void Cursor::show(Slot slot) {
  change("flip", [&](Selection& s) { s.shown = slot; });
}

void Cursor::set_option(const std::string& name, const std::string& value) {
  change("option " + name, [&](Selection& s) {
    if (value.empty())
      s.options.erase(name);
    else
      s.options[name] = value;
  });
}

void Cursor::set_other_trace(const std::string& path) {
  change("other trace", [&](Selection& s) { s.other_trace = path; });
}

void Cursor::set_numbers(const NumberScope& scope) {
  change("numbers", [&](Selection& s) { s.numbers = scope; });
}

void Cursor::set_perspective(const std::string& id) {
  change("perspective", [&](Selection& s) { s.perspective = id; });
}

void Cursor::set_picture(const PictureForm& form) {
  change("picture", [&](Selection& s) { s.picture = form; });
}

bool Cursor::back() {
  TraceTab* tab = traces_.ready();
  return tab != nullptr && tab->history.back(tab->selection);
}

bool Cursor::forward() {
  TraceTab* tab = traces_.ready();
  return tab != nullptr && tab->history.forward(tab->selection);
}

bool Cursor::can_go_back() const {
  const TraceTab* tab = std::as_const(traces_).ready();
  return tab != nullptr && tab->history.can_go_back();
}

bool Cursor::can_go_forward() const {
  const TraceTab* tab = std::as_const(traces_).ready();
  return tab != nullptr && tab->history.can_go_forward();
}

}  // namespace kvloupe::state
