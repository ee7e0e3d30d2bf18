// Tables as JSON.
#pragma once

#include "core/replay/table.h"

#include <nlohmann/json.hpp>

namespace kvloupe::cli {

nlohmann::ordered_json json_of(const table::Cell& cell);
// An object a row, in a list: each cell under its column's id, but for those that are absent.
nlohmann::ordered_json json_rows(const table::Table& table);

}  // namespace kvloupe::cli
