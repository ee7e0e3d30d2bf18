// How the commands print JSON.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace kvloupe::cli {

// With a line end. Valid and harmless to a terminal, whatever bytes a trace held: text outside ASCII
// is escaped, and U+FFFD stands for what is no UTF-8. indent < 0: on one line.
inline std::string json_text(const nlohmann::ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', /*ensure_ascii=*/true,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace kvloupe::cli
