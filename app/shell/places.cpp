#include "app/shell/places.h"

#include "app/shell/state_files.h"
#include "app/state/view_list.h"
#include "core/base/error.h"
#include "core/base/paths.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace kvloupe::shell {
namespace {

using nlohmann::ordered_json;
using state::MethodChoice;

constexpr std::size_t kMostPlaces = 50;
constexpr std::size_t kMostMethods = 64;

std::filesystem::path file() { return paths::state_dir() / "places.json"; }

// Newest last: [{"trace": path, "goto": text, "methods": [A, B], "shown": "A", "more": [..],
// "tried": [..], "options": {"view.option": value}}].
ordered_json load() {
  try {
    ordered_json json = read_small_json(file());
    if (json.is_array()) return json;
  } catch (const Error&) {
    // Traces begin where new ones do, and the file is made anew.
  }
  return ordered_json::array();
}

std::string text_of(const ordered_json& entry, const char* name) {
  const auto found = entry.find(name);
  return found != entry.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool is_of(const ordered_json& entry, const std::string& path) {
  if (!entry.is_object()) return false;
  const auto trace = entry.find("trace");
  return trace != entry.end() && bytes_of_json(*trace) == path;
}

ordered_json texts_of(const std::vector<MethodChoice>& methods) {
  ordered_json texts = ordered_json::array();
  for (const MethodChoice& method : methods) texts.push_back(json_of_bytes(method.text));
  return texts;
}

// As many as the trace still understands, in their order; an empty one where it does not.
std::vector<MethodChoice> choices(const ordered_json& entry, const char* name,
                                  const state::OpenTrace& trace) {
  std::vector<MethodChoice> methods;
  const auto texts = entry.find(name);
  if (texts == entry.end() || !texts->is_array()) return methods;
  for (std::size_t i = 0; i < std::min(texts->size(), kMostMethods); ++i) {
    methods.emplace_back();
    try {
      if (const auto text = bytes_of_json((*texts)[i]))
        methods.back() = state::choice_of_text(*text, trace);
    } catch (const Error&) {
      // Of another version, or a run that the trace no longer has.
    }
  }
  return methods;
}

bool is_choice(const std::string& name, const std::string& value) {
  const std::size_t dot = name.find('.');
  const state::ViewInfo* view = state::find_view(name.substr(0, dot));
  if (view == nullptr || dot == std::string::npos) return false;
  return std::any_of(view->options.begin(), view->options.end(),
                     [&](const state::ViewOption& option) {
                       return option.name == name.substr(dot + 1) &&
                              std::find(option.choices.begin(), option.choices.end(), value) !=
                                  option.choices.end();
                     });
}

void restore(const ordered_json& entry, state::TraceTab& tab) {
  state::Selection& s = tab.selection;
  const state::OpenTrace& trace = *s.place.trace;
  const auto known = [](std::vector<MethodChoice> methods) {
    std::erase_if(methods, [](const MethodChoice& method) { return method.empty(); });
    return methods;
  };
  const std::vector<MethodChoice> methods = choices(entry, "methods", trace);
  for (std::size_t i = 0; i < std::min(methods.size(), state::kSlots.size()); ++i)
    if (!methods[i].empty()) s.choice(state::kSlots[i]) = methods[i];
  s.more = known(choices(entry, "more", trace));
  tab.tried = known(choices(entry, "tried", trace));
  s.shown = text_of(entry, "shown") == "B" ? state::Slot::B : state::Slot::A;
  if (const auto options = entry.find("options"); options != entry.end() && options->is_object())
    for (const auto& [name, value] : options->items())
      if (value.is_string() && is_choice(name, value.get<std::string>()))
        s.options[name] = value.get<std::string>();
  try {
    state::Place place = s.place;
    state::apply_goto(place, state::parse_goto(text_of(entry, "goto")));
    s.place = place;
  } catch (const Error&) {
    // The file was made anew and is another one: it begins where new ones do.
  }
}

}  // namespace

KeptPlace place_of(const state::TraceTab& tab) {
  const state::Selection& s = tab.selection;
  const ordered_json json{{"trace", json_of_bytes(tab.path)},
                          {"goto", state::goto_text(s.place)},
                          {"methods", texts_of({s.method.begin(), s.method.end()})},
                          {"shown", std::string(1, state::letter_of(s.shown))},
                          {"more", texts_of(s.more)},
                          {"tried", texts_of(tab.tried)},
                          {"options", s.options}};
  return {tab.path, json.dump()};
}

void save_places(const std::vector<KeptPlace>& places) {
  if (places.empty()) return;
  // Another window keeps its own places there: read, change and write must not cross.
  const FileLock lock(paths::state_dir() / "places.lock", std::chrono::seconds(1));
  ordered_json all = load();
  for (const KeptPlace& place : places) {
    for (std::size_t i = all.size(); i-- > 0;)
      if (is_of(all[i], place.trace)) all.erase(i);
    all.push_back(ordered_json::parse(place.json));
  }
  while (all.size() > kMostPlaces) all.erase(std::size_t{0});
  write_small_json(file(), all);
}

void restore_place(state::TraceTab& tab) {
  for (const ordered_json& entry : load())
    if (is_of(entry, tab.path)) restore(entry, tab);
}

}  // namespace kvloupe::shell
