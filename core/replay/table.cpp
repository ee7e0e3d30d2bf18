// What cells say, and the exact form for programs. The texts for a terminal and for documents stand in
// table_terminal.cpp and table_markup.cpp.
#include "core/replay/table.h"

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/replay/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::table {
namespace {

template <typename... Cases>
struct Visitor : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Visitor(Cases...) -> Visitor<Cases...>;

const char* word_of(replay::Unit unit) {
  using replay::Unit;
  switch (unit) {
    case Unit::Keys: return "KVs";
    case Unit::Bytes: return "bytes";
    case Unit::Nats: return "nats";
    case Unit::Share:
    case Unit::Relative:
    case Unit::Correlation: return "";
  }
  return "";
}

std::string number_text(double value, std::optional<int> digits, const Column& column) {
  const bool percent = column.unit == "%";
  const double shown = percent ? 100 * value : value;
  if (digits) return fmt::format("{:.{}f}", shown, std::max(0, *digits - (percent ? 2 : 0)));
  if (column.digits >= 0) return fmt::format("{:.{}f}", shown, column.digits);
  const int counted = column.digits == Column::kFourThatCount ? 4 : -column.digits;
  const bool long_number = std::abs(shown) >= 1e4 && std::abs(shown) < 1e15;
  return long_number ? fmt::format("{:.0f}", shown) : fmt::format("{:.{}g}", shown, counted);
}

// A blank at an end would not be seen.
std::string token_text(const Token& token) {
  const std::string text = printable(token.text);
  const auto first = std::min(text.find_first_not_of(' '), text.size());
  const auto end = std::max(first, text.find_last_not_of(' ') + 1);
  std::string shown;
  for (std::size_t i = 0; i < text.size(); ++i)
    shown += i < first || i >= end ? std::string("\u00B7") : text.substr(i, 1);
  return shown;
}

// Shares are written as they are, so that they have no unit here; "attend_ms" says its own.
std::string csv_head(const Column& column, CsvHead head) {
  const bool is_said =
      column.unit.empty() || column.unit == "%" || column.id.ends_with("_" + column.unit);
  return head == CsvHead::Id || is_said ? column.id : column.id + " (" + column.unit + ")";
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

}  // namespace

Term term_of(replay::Stage stage) { return {name_of(stage), words_of(stage)}; }

Column::Column(replay::Number number) {
  const replay::NumberInfo& info = info_of(number);
  id = info.id;
  title = info.title;
  unit = word_of(info.unit);
  heading = info.heading;
  digits = info.digits;
}

Column::Column(std::string name) {
  if (const replay::NumberInfo* const info = replay::find_number(name)) {
    *this = Column(info->number);
    return;
  }
  title = name;
  if (title.ends_with("_ms")) {
    title.resize(title.size() - 3);
    unit = "ms";
  }
  std::replace(title.begin(), title.end(), '_', ' ');
  id = std::move(name);
}

Cell Cell::within(double number, double low, double high) {
  Cell cell(number);
  const double half = (high - low) / 2;
  if (half > 0 && std::isfinite(half))
    cell.digits_ = std::max(0, 1 - static_cast<int>(std::floor(std::log10(half))));
  return cell;
}

const Cell& Table::at(std::size_t row, const std::string& id) const {
  const auto column =
      std::find_if(columns.begin(), columns.end(), [&](const Column& one) { return one.id == id; });
  KVLOUPE_CHECK(column != columns.end());
  return rows.at(row).at(static_cast<std::size_t>(column - columns.begin()));
}

std::string exact_text(const Cell& cell) {
  return std::visit(
      Visitor{[](Cell::Absent) { return std::string(); },
              [](Cell::Unknown) { return std::string(); },
              [](bool flag) { return std::string(flag ? "1" : "0"); },
              [](std::int64_t number) { return fmt::format("{}", number); },
              [](double number) { return format_shortest(number); },
              [](const std::string& text) { return text; },
              [](const Term& term) { return std::string(term.id); },
              [](const Token& token) { return token.text; },
              [](const MethodText& method) { return method.text; },
              [](const HeadRow& row) { return fmt::format("{}", row.row); },
              [](const auto& list) { return fmt::format("{}", fmt::join(list, ",")); }},
      cell.value());
}

std::string words_of(const Cell& cell, const Column& column) {
  return std::visit(
      Visitor{[](Cell::Unknown) { return std::string("-"); },
              [](bool flag) { return std::string(flag ? "yes" : "no"); },
              [&](double number) { return number_text(number, cell.digits(), column); },
              [](const Term& term) { return std::string(term.words); },
              [](const Token& token) { return token_text(token); },
              [](const HeadRow& row) { return replay::row_words(row.layout, row.row); },
              [&](const auto& /*as it is*/) { return printable(exact_text(cell)); }},
      cell.value());
}

std::string csv_text(const Table& table, CsvHead head) {
  std::string out;
  const auto append_line = [&](const auto& text_of, bool is_head) {
    const char* comma = "";
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      const Column& column = table.columns[i];
      if (column.id.empty()) continue;
      const std::string text = text_of(i);
      const bool needed = text.find_first_of(",\"\r\n") != std::string::npos;
      out += comma + (needed || (column.quoted && !is_head) ? quoted(text) : text);
      comma = ",";
    }
    out += '\n';
  };
  append_line([&](std::size_t i) { return csv_head(table.columns[i], head); }, true);
  for (const auto& row : table.rows)
    append_line([&](std::size_t i) { return exact_text(row[i]); }, false);
  return out;
}

}  // namespace kvloupe::table
