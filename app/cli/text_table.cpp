#include "app/cli/text_table.h"

#include "core/base/printable.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::cli {
namespace {

bool is_number(const std::string& cell) { return cell == "-" || parse_double(cell).has_value(); }

}  // namespace

void TextTable::add(const std::vector<std::string>& row) {
  rows_.emplace_back();
  for (const std::string& cell : row) rows_.back().push_back(printable(cell));
}

std::string TextTable::text() const {
  const std::size_t columns = rows_.front().size();
  std::vector<std::size_t> widths(columns, 0);
  std::vector<bool> right(columns, rows_.size() > 1);
  for (std::size_t row = 0; row < rows_.size(); ++row)
    for (std::size_t column = 0; column < columns; ++column) {
      widths[column] = std::max(widths[column], rows_[row][column].size());
      if (row > 0 && !is_number(rows_[row][column])) right[column] = false;
    }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t column = 0; column < columns; ++column)
      line += right[column] ? fmt::format("{:>{}}  ", row[column], widths[column])
                            : fmt::format("{:<{}}  ", row[column], widths[column]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace kvloupe::cli
