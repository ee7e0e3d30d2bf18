#include "app/shell/saved/places_file.h"

#include "app/shell/saved/state_files.h"
#include "app/shell/saved/view_state_json.h"
#include "core/base/error.h"
#include "core/base/file_lock.h"
#include "core/base/paths.h"

#include <nlohmann/json.hpp>

namespace kvloupe::shell {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostPlaces = 50;

std::filesystem::path file() { return paths::state_dir() / "places.json"; }

// Newest last: a list of states (view_state_json.h).
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

}  // namespace

void save_places(const std::vector<state::ViewState>& places) {
  if (places.empty()) return;
  // Another window keeps its own places there: read, change and write must not cross.
  const FileLock lock(paths::state_dir() / "places.lock", std::chrono::seconds(1));
  ordered_json all = load();
  for (const state::ViewState& place : places) {
    for (std::size_t i = all.size(); i-- > 0;)
      if (is_of(all[i], place.trace)) all.erase(i);
    all.push_back(json_of_state(place));
  }
  while (all.size() > kMostPlaces) all.erase(std::size_t{0});
  write_small_json(file(), all);
}

std::optional<state::ViewState> find_place(const std::string& trace) {
  const ordered_json all = load();
  for (std::size_t i = all.size(); i-- > 0;)
    if (is_of(all[i], trace)) return state_of_json(all[i]);
  return std::nullopt;
}

}  // namespace kvloupe::shell
