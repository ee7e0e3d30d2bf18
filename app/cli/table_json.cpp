#include "app/cli/table_json.h"

#include "app/cli/row_json.h"

namespace kvloupe::cli {
namespace {

using nlohmann::ordered_json;
using table::Cell;

struct JsonOf {
  ordered_json operator()(Cell::Absent) const { return nullptr; }
  ordered_json operator()(Cell::Unknown) const { return nullptr; }
  ordered_json operator()(const table::Term& term) const { return term.id; }
  ordered_json operator()(const table::Token& token) const { return token.text; }
  ordered_json operator()(const table::MethodText& method) const { return method.text; }
  ordered_json operator()(const table::HeadRow& row) const {
    return row_json(row.layout.axis, row.layout.q_heads_per_row, static_cast<std::size_t>(row.row));
  }
  template <typename T>
  ordered_json operator()(const T& value) const {
    return value;
  }
};

}  // namespace

ordered_json json_of(const Cell& cell) { return std::visit(JsonOf{}, cell.value()); }

ordered_json json_rows(const table::Table& table) {
  ordered_json rows = ordered_json::array();
  for (const auto& cells : table.rows) {
    ordered_json& row = rows.emplace_back(ordered_json::object());
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string& id = table.columns[i].id;
      if (id.empty() || std::holds_alternative<Cell::Absent>(cells[i].value())) continue;
      const std::size_t slash = id.find('/');
      ordered_json& place =
          slash == std::string::npos ? row[id] : row[id.substr(0, slash)][id.substr(slash + 1)];
      place = json_of(cells[i]);
    }
  }
  return rows;
}

}  // namespace kvloupe::cli
