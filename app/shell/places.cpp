#include "app/shell/places.h"

#include "app/shell/settings.h"
#include "core/base/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace kvloupe::shell {
namespace {

using nlohmann::ordered_json;

constexpr const char* kFile = "places.json";
constexpr std::size_t kMostPlaces = 50;

// Newest last: [{"trace": path, "goto": text, "methods": [A, B], "shown": "A", "options": {}}].
ordered_json load() {
  const auto json = ordered_json::parse(load_state(kFile), nullptr, false);
  return json.is_array() ? json : ordered_json::array();
}

std::string text_of(const ordered_json& entry, const char* name) {
  const auto found = entry.find(name);
  return found != entry.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool is_of(const ordered_json& entry, const std::string& path) {
  return entry.is_object() && text_of(entry, "trace") == path;
}

void restore(const ordered_json& entry, state::TraceTab& tab) {
  state::Selection& s = tab.selection;
  const state::OpenTrace& trace = *s.place.trace;
  state::Place place = s.place;
  state::apply_goto(place, state::parse_goto(text_of(entry, "goto")));
  s.place = place;
  const auto methods = entry.find("methods");
  if (methods == entry.end() || !methods->is_array()) return;
  for (std::size_t i = 0; i < std::min(methods->size(), state::kSlots.size()); ++i)
    if ((*methods)[i].is_string())
      s.choice(state::kSlots[i]) = state::choice_of_text((*methods)[i].get<std::string>(), trace);
  s.shown = text_of(entry, "shown") == "B" ? state::Slot::B : state::Slot::A;
}

}  // namespace

void save_place(const state::TraceTab& tab) {
  const state::Selection& s = tab.selection;
  ordered_json places = load();
  for (std::size_t i = places.size(); i-- > 0;)
    if (is_of(places[i], tab.path)) places.erase(i);
  places.push_back({{"trace", tab.path},
                    {"goto", state::goto_text(s.place)},
                    {"methods", {s.choice(state::Slot::A).text, s.choice(state::Slot::B).text}},
                    {"shown", std::string(1, state::letter_of(s.shown))}});
  while (places.size() > kMostPlaces) places.erase(std::size_t{0});
  save_state(kFile, places.dump(2) + "\n");
}

void restore_place(state::TraceTab& tab) {
  for (const ordered_json& entry : load()) {
    if (!is_of(entry, tab.path)) continue;
    try {
      restore(entry, tab);
    } catch (const Error&) {
      // The file was made anew and is another one: it begins where new ones do.
    }
  }
}

}  // namespace kvloupe::shell
