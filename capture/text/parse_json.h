// JSON of files that a model comes with. They are of anybody.
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string_view>

namespace kvloupe::capture {

inline constexpr int kMostJsonDepth = 64;

// Discarded where it is no JSON, or nests deeper than kMostJsonDepth: to copy such a value takes more stack than there is.
inline nlohmann::json parse_json(std::string_view text) {
  int deepest = 0;
  nlohmann::json parsed = nlohmann::json::parse(
      text,
      [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
        deepest = std::max(deepest, depth);
        return depth <= kMostJsonDepth;
      },
      /*allow_exceptions=*/false);
  return deepest > kMostJsonDepth ? nlohmann::json(nlohmann::json::value_t::discarded) : parsed;
}

}  // namespace kvloupe::capture
