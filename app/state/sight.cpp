#include "app/state/sight.h"

#include "app/state/shown_methods.h"
#include "app/state/traces.h"
#include "core/base/error.h"
#include "core/base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvloupe::state {
namespace {

bool looks_at(const ViewInfo& view, const char* coordinate) {
  return std::find(view.coordinates.begin(), view.coordinates.end(), coordinate) !=
         view.coordinates.end();
}

std::string name_of_method(const MethodChoice& method) {
  return printable(method.known() ? replay::short_name(*method.spec) : method.text);
}

}  // namespace

std::string copy_id(const std::string& view, int number) {
  return number == 1 ? view : fmt::format("{}#{}", view, number);
}

std::string view_of(const std::string& id) {
  const std::size_t sign = id.find('#');
  if (sign == std::string::npos || sign + 2 != id.size()) return id;
  const char digit = id.back();
  return digit >= '2' && digit <= '0' + kMostCopies ? id.substr(0, sign) : id;
}

void swap_options(std::map<std::string, std::string>& options, const std::string& one,
                  const std::string& other) {
  if (one == other) return;
  std::map<std::string, std::string> swapped;
  for (const auto& [name, value] : options) {
    const std::size_t dot = std::min(name.find('.'), name.size());
    const std::string owner = name.substr(0, dot), option = name.substr(dot);
    swapped[(owner == one ? other : owner == other ? one : owner) + option] = value;
  }
  options = std::move(swapped);
}

ViewState lock_words(const TraceTab& tab, const Selection& seen) {
  ViewState words;
  words.trace = tab.path;
  words.place = target_of(seen.place);
  words.place.keys = {};
  words.place.span = {};
  for (const MethodChoice& method : seen.method)
    words.methods.push_back(name_in(*seen.place.trace, method));
  words.shown = seen.shown;
  return words;
}

Lock lock_on(const TraceTab& tab, const ViewState& words) {
  Lock lock;
  lock.tab = tab.id;
  lock.place.trace = tab.selection.place.trace;
  apply_goto(lock.place, words.place);
  for (const Slot slot : kSlots) {
    const auto index = static_cast<std::size_t>(slot);
    if (index < words.methods.size() && !words.methods[index].empty())
      lock.method[index] = choice_of_text(words.methods[index], *lock.place.trace);
  }
  lock.shown = words.shown;
  return lock;
}

std::string words_of(const Lock& lock, const ViewInfo& view) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (looks_at(view, "layer")) add(fmt::format("layer {}", lock.place.layer));
  if (looks_at(view, "q_head")) add(fmt::format("query head {}", lock.place.q_head));
  if (looks_at(view, "chunk")) add(chunk_name(lock.place.info(), lock.place.chunk));
  const bool both = view.shows_both;
  for (const Slot slot : kSlots)
    if (view.num_methods > 0 && (both || slot == lock.shown))
      add(fmt::format("{} {}", letter_of(slot),
                      name_of_method(lock.method[static_cast<std::size_t>(slot)])));
  return text;
}

Selection Sight::seen(Selection of_tab) const {
  enter(of_tab);
  if (!lock) return of_tab;
  Place& place = of_tab.place;
  place.layer = lock->place.layer;
  place.q_head = lock->place.q_head;
  place.chunk = lock->place.chunk;
  place.query = lock->place.query;
  place.window = lock->place.window;
  clamp(place);  // a trace that was read anew may have fewer
  of_tab.method = lock->method;
  return of_tab;
}

void Sight::enter(Selection& changing) const {
  swap_options(changing.options, view_of(id), id);
  if (lock) changing.shown = lock->shown;
}

void Sight::leave(Selection& changed, Slot shown_of_tab) {
  swap_options(changed.options, view_of(id), id);
  if (!lock) return;
  lock->shown = changed.shown;
  changed.shown = shown_of_tab;
}

}  // namespace kvloupe::state
