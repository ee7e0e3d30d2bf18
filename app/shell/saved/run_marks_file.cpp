#include "app/shell/saved/run_marks_file.h"

#include "app/shell/saved/trace_session.h"

#include <nlohmann/json.hpp>

namespace kvloupe::shell {
namespace {

using nlohmann::ordered_json;

constexpr const char* kNames = "run_names";
constexpr const char* kPins = "pinned_runs";

void add_marks(const ordered_json& json, state::RunMarks& marks) {
  if (const auto names = json.find(kNames); names != json.end() && names->is_object())
    for (const auto& [spec, name] : names->items())
      if (name.is_string()) marks.names.emplace(spec, name.get<std::string>());
  if (const auto pins = json.find(kPins); pins != json.end() && pins->is_array())
    for (const ordered_json& pin : *pins)
      if (pin.is_string()) marks.pins.insert(pin.get<std::string>());
}

}  // namespace

state::RunMarks load_run_marks(const std::filesystem::path& trace) {
  state::RunMarks marks;
  for (const ordered_json& json : read_sessions(trace)) add_marks(json, marks);
  return marks;
}

void save_run_marks(const std::filesystem::path& trace, const state::RunMarks& before,
                    const state::RunMarks& now) {
  change_session(trace, [&](ordered_json& json) {
    state::RunMarks marks;
    add_marks(json, marks);
    for (const auto& [spec, name] : before.names)
      if (!now.names.contains(spec)) marks.names.erase(spec);
    for (const auto& [spec, name] : now.names) marks.names[spec] = name;
    for (const std::string& pin : before.pins)
      if (!now.pins.contains(pin)) marks.pins.erase(pin);
    marks.pins.insert(now.pins.begin(), now.pins.end());
    json[kNames] = marks.names;
    json[kPins] = marks.pins;
  });
}

}  // namespace kvloupe::shell
