#include "app/cli/text_table.h"

#include "core/base/printable.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace kvloupe::cli {
namespace {

constexpr std::size_t kGap = 2;         // between columns
constexpr std::size_t kNarrowest = 16;  // that the first column is broken to

bool is_number(const std::string& cell) {
  return cell.empty() || cell == "-" || parse_double(cell).has_value();
}

// After a comma where one is near enough, else where the width ends; what follows the first line is
// indented.
std::vector<std::string> broken(const std::string& text, std::size_t width) {
  std::vector<std::string> lines;
  std::string rest = text;
  while (rest.size() > width) {
    const std::size_t comma = rest.rfind(',', width - 1);
    const std::size_t end = comma == std::string::npos || comma < 3 ? width : comma + 1;
    lines.push_back(rest.substr(0, end));
    rest = "  " + rest.substr(end);
  }
  lines.push_back(rest);
  return lines;
}

}  // namespace

void TextTable::add(const std::vector<std::string>& row) {
  rows_.emplace_back();
  for (const std::string& cell : row) rows_.back().push_back(printable(cell));
}

std::vector<std::size_t> TextTable::widths(std::size_t most) const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_)
    for (std::size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  const std::size_t whole =
      std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
  if (whole > most) {
    const std::size_t others = whole - widths.front();
    const std::size_t room = others < most ? most - others : 0;
    widths.front() = std::min(widths.front(), std::max(kNarrowest, room));
  }
  return widths;
}

std::string TextTable::text(std::size_t width) const {
  const std::vector<std::size_t> wide = widths(width);
  std::vector<bool> right(wide.size(), rows_.size() > 1);
  for (std::size_t row = 1; row < rows_.size(); ++row)
    for (std::size_t column = 0; column < wide.size(); ++column)
      if (!is_number(rows_[row][column])) right[column] = false;
  std::string text;
  for (const auto& row : rows_) {
    const std::vector<std::string> first = broken(row.front(), wide.front());
    for (std::size_t i = 0; i < first.size(); ++i) {
      std::string line;
      for (std::size_t column = 0; column < wide.size(); ++column) {
        const std::string cell = column == 0 ? first[i] : i == 0 ? row[column] : std::string();
        line += right[column] ? fmt::format("{:>{}}", cell, wide[column])
                              : fmt::format("{:<{}}", cell, wide[column]);
        line += std::string(kGap, ' ');
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
  }
  return text;
}

}  // namespace kvloupe::cli
