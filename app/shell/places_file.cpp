#include "app/shell/places_file.h"

#include "app/shell/state_files.h"
#include "core/base/error.h"
#include "core/base/paths.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace kvloupe::shell {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostPlaces = 50;
constexpr std::size_t kMostMethods = 64;

std::filesystem::path file() { return paths::state_dir() / "places.json"; }

// Newest last: [{"trace": path, "goto": text, "methods": [A, B], "shown": "A", "more": [..],
// "tried": [..], "options": {"view.option": value}, "device": "cpu"}].
ordered_json load() {
  try {
    ordered_json json = read_small_json(file());
    if (json.is_array()) return json;
  } catch (const Error&) {
    // Traces begin where new ones do, and the file is made anew.
  }
  return ordered_json::array();
}

bool is_of(const ordered_json& entry, const std::string& path) {
  if (!entry.is_object()) return false;
  const auto trace = entry.find("trace");
  return trace != entry.end() && bytes_of_json(*trace) == path;
}

std::string text_in(const ordered_json& entry, const char* name) {
  const auto found = entry.find(name);
  return found != entry.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::vector<std::string> texts_in(const ordered_json& entry, const char* name) {
  std::vector<std::string> texts;
  const auto list = entry.find(name);
  if (list == entry.end() || !list->is_array()) return texts;
  for (std::size_t i = 0; i < std::min(list->size(), kMostMethods); ++i)
    texts.push_back(bytes_of_json((*list)[i]).value_or(""));
  return texts;
}

KeptPlace place_in(const ordered_json& entry, const std::string& trace) {
  KeptPlace place;
  place.trace = trace;
  place.goto_text = text_in(entry, "goto");
  place.methods = texts_in(entry, "methods");
  place.more = texts_in(entry, "more");
  place.tried = texts_in(entry, "tried");
  place.shown = text_in(entry, "shown");
  place.device = text_in(entry, "device");
  if (const auto options = entry.find("options"); options != entry.end() && options->is_object())
    for (const auto& [name, value] : options->items())
      if (value.is_string()) place.options[name] = value.get<std::string>();
  return place;
}

ordered_json json_of(const std::vector<std::string>& texts) {
  ordered_json list = ordered_json::array();
  for (const std::string& text : texts) list.push_back(json_of_bytes(text));
  return list;
}

ordered_json json_of(const KeptPlace& place) {
  return {{"trace", json_of_bytes(place.trace)},
          {"goto", place.goto_text},
          {"methods", json_of(place.methods)},
          {"shown", place.shown},
          {"more", json_of(place.more)},
          {"tried", json_of(place.tried)},
          {"options", place.options},
          {"device", place.device}};
}

}  // namespace

void save_places(const std::vector<KeptPlace>& places) {
  if (places.empty()) return;
  // Another window keeps its own places there: read, change and write must not cross.
  const FileLock lock(paths::state_dir() / "places.lock", std::chrono::seconds(1));
  ordered_json all = load();
  for (const KeptPlace& place : places) {
    for (std::size_t i = all.size(); i-- > 0;)
      if (is_of(all[i], place.trace)) all.erase(i);
    all.push_back(json_of(place));
  }
  while (all.size() > kMostPlaces) all.erase(std::size_t{0});
  write_small_json(file(), all);
}

std::optional<KeptPlace> find_place(const std::string& trace) {
  const ordered_json all = load();
  for (std::size_t i = all.size(); i-- > 0;)
    if (is_of(all[i], trace)) return place_in(all[i], trace);
  return std::nullopt;
}

}  // namespace kvloupe::shell
