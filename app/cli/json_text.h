// How the commands print JSON: all of it begins with what it is.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace kvloupe::cli {

template <typename Value>
nlohmann::ordered_json or_null(const std::optional<Value>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

// An object, with a line end. `schema` is the command's name, what else tells its forms apart, and the
// version: "kvloupe-compare/1"; a key that is renamed, removed or means another thing is a new version.
// Valid and harmless to a terminal, whatever bytes a trace held: text outside ASCII is escaped, and
// U+FFFD replaces what is not UTF-8. indent < 0: on one line.
inline std::string json_text(const std::string& schema, const nlohmann::ordered_json& json,
                             int indent = -1) {
  nlohmann::ordered_json whole{{"schema", schema}};
  whole.update(json);
  return whole.dump(indent, ' ', /*ensure_ascii=*/true,
                    nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace kvloupe::cli
