// How the commands name the rows of a selection in JSON.
#pragma once

#include "core/trace/trace_types.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <utility>

namespace kvloupe::cli {

// The key under which a list of rows stands, and the one that numbers a row.
inline std::pair<const char*, const char*> row_names(trace::RowAxis axis) {
  switch (axis) {
    case trace::RowAxis::KvHead: return {"kv_heads", "kv_head"};
    case trace::RowAxis::QHead: return {"q_heads", "q_head"};
    case trace::RowAxis::Subgroup: return {"subgroups", "subgroup"};
  }
  return {"", ""};
}

// {"kv_head": 1}, {"subgroup": 0, "q_heads": [0, 1, 2, 3]}
inline nlohmann::ordered_json row_json(trace::RowAxis axis, int q_heads_per_row, std::size_t row) {
  nlohmann::ordered_json json{{row_names(axis).second, row}};
  if (axis != trace::RowAxis::Subgroup) return json;
  const auto heads = static_cast<std::size_t>(q_heads_per_row);
  for (std::size_t i = 0; i < heads; ++i) json["q_heads"].push_back(row * heads + i);
  return json;
}

}  // namespace kvloupe::cli
