// The forms in which rows are shown.
#include "app/cli/compare_report.h"

#include "app/cli/json_text.h"
#include "app/cli/text_table.h"
#include "core/base/printable.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace kvloupe::cli {
namespace {

using nlohmann::ordered_json;
using replay::CompareRow;
using replay::SweptValue;

using Number = std::optional<double> CompareRow::*;
constexpr std::array<std::pair<const char*, Number>, 8> kNumbers = {{
    {"requested_budget", &CompareRow::requested_budget},
    {"effective_budget", &CompareRow::effective_budget},
    {"mass_recall", &CompareRow::mass_recall},
    {"topk_overlap", &CompareRow::topk_overlap},
    {"output_error", &CompareRow::output_error},
    {"density", &CompareRow::density},
    {"forced", &CompareRow::forced},
    {"kv_bytes", &CompareRow::kv_bytes},
}};

// After the leakage; the first five are empty for methods that do not choose blocks.
constexpr std::array<std::pair<const char*, Number>, 9> kLastNumbers = {{
    {"native_density", &CompareRow::native_density},
    {"native_density_causal", &CompareRow::native_density_causal},
    {"native_density_rectangle", &CompareRow::native_density_rectangle},
    {"density_causal", &CompareRow::density_causal},
    {"density_rectangle", &CompareRow::density_rectangle},
    {"gap", &CompareRow::gap},
    {"span_kept", &CompareRow::span_kept},
    {"visible_recall", &CompareRow::visible_recall},
    {"metadata_bytes", &CompareRow::metadata_bytes},
}};

// Of decode rows, by k.
constexpr std::array<std::pair<const char*, Number>, 3> kRecallAt = {{
    {"1", &CompareRow::recall_at_1},
    {"10", &CompareRow::recall_at_10},
    {"64", &CompareRow::recall_at_64},
}};

bool is_shown(const std::optional<double>& number) { return number && std::isfinite(*number); }

ordered_json json_of(const std::optional<double>& number) {
  return is_shown(number) ? ordered_json(*number) : ordered_json(nullptr);
}
std::string csv_of(const std::optional<double>& number) {
  return is_shown(number) ? format_shortest(*number) : std::string();
}

// Whether the method's basis was fitted on text of the trace: its figures flatter it then.
int leakage_of(const CompareRow& row) { return row.basis && row.basis->leakage ? 1 : 0; }

// Counts as whole numbers.
ordered_json json_of(const SweptValue& swept) {
  if (!swept.value) return nullptr;
  const double value = *swept.value;
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<std::int64_t>(value);
  return value;
}
ordered_json json_of(const std::vector<SweptValue>& values) {
  ordered_json json = ordered_json::object();
  for (const SweptValue& value : values) json[value.name] = json_of(value);
  return json;
}

ordered_json json_of(const CompareRow& row, const CompareReport& report) {
  ordered_json json{{"method", row.method}, {"phase", row.phase},
                    {"scope", row.scope},   {"index", row.index},
                    {"cells", row.cells},   {"fallback_cells", row.fallback_cells}};
  if (!row.grid.empty()) json["index"] = row.grid;
  for (const auto& [name, member] : kNumbers) json[name] = json_of(row.*member);
  json["leakage"] = leakage_of(row);
  for (const auto& [name, member] : kLastNumbers) json[name] = json_of(row.*member);
  if (row.phase == "decode")
    for (const auto& [k, member] : kRecallAt) json["recall_at_k"][k] = json_of(row.*member);
  if (!report.axes.empty()) json["sweep"] = json_of(row.sweep);
  if (report.has_target) json["solved"] = json_of(row.solved);
  return json;
}

// Of the axis; empty where the method has none such.
const SweptValue* find(const std::vector<SweptValue>& values, const std::string& axis) {
  const auto found = std::find_if(values.begin(), values.end(),
                                  [&](const SweptValue& value) { return value.name == axis; });
  return found == values.end() ? nullptr : &*found;
}

// In the order of CSV columns and of the table: of each axis its value, then where a target is set
// what is enough.
std::vector<std::string> axis_titles(const CompareReport& report) {
  std::vector<std::string> titles = report.axes;
  if (report.has_target)
    for (const std::string& axis : report.axes) titles.push_back("solved_" + axis);
  return titles;
}
std::vector<std::string> axis_cells(const CompareRow& row, const CompareReport& report) {
  std::vector<std::string> cells;
  const auto add = [&](const std::vector<SweptValue>& values) {
    for (const std::string& axis : report.axes) {
      const SweptValue* const found = find(values, axis);
      cells.push_back(found == nullptr ? std::string() : csv_of(found->value));
    }
  };
  add(row.sweep);
  if (report.has_target) add(row.solved);
  return cells;
}

}  // namespace

Number number_named(const std::string& name) {
  for (const auto& [known, member] : kNumbers)
    if (name == known) return member;
  for (const auto& [known, member] : kLastNumbers)
    if (name == known) return member;
  for (const auto& [k, member] : kRecallAt)
    if (name == fmt::format("recall_at_{}", k)) return member;
  return nullptr;
}

std::string compare_json(const CompareReport& report) {
  const replay::Comparison& comparison = report.comparison;
  ordered_json json{{"chunk_size", nullptr},
                    {"cells", report.cells},
                    {"weights", report.weights},
                    {"rows", ordered_json::array()},
                    {"unavailable", ordered_json::array()}};
  if (report.chunk_size) json["chunk_size"] = *report.chunk_size;
  for (const replay::UnavailableMethod& entry : comparison.unavailable)
    json["unavailable"].push_back({{"method", entry.method}, {"reason", entry.error.what()}});
  for (const CompareRow& row : comparison.rows) json["rows"].push_back(json_of(row, report));
  return json_text("kvloupe-compare/1", json);
}

namespace {

// A SPEC holds commas but never a quote in a method of the catalogue; a path may.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
  return result + '"';
}

// The scope and the index; of several indices both hold commas.
std::string csv_place(const CompareRow& row) {
  if (row.grid.empty()) return fmt::format("{},{}", row.scope, row.index);
  return fmt::format("{},{}", quoted(row.scope),
                     quoted(fmt::format("{}", fmt::join(row.grid, ","))));
}

}  // namespace

std::string compare_csv(const CompareReport& report) {
  std::string text = "method,phase,scope,index,cells,fallback_cells";
  for (const auto& [name, member] : kNumbers) text += fmt::format(",{}", name);
  text += ",leakage";
  for (const auto& [name, member] : kLastNumbers) text += fmt::format(",{}", name);
  for (const auto& [k, member] : kRecallAt) text += fmt::format(",recall_at_{}", k);
  for (const std::string& title : axis_titles(report)) text += "," + title;
  text += '\n';
  for (const CompareRow& row : report.comparison.rows) {
    text += fmt::format("{},{},{},{},{}", quoted(row.method), row.phase, csv_place(row), row.cells,
                        row.fallback_cells);
    for (const auto& [name, member] : kNumbers) text += "," + csv_of(row.*member);
    text += fmt::format(",{}", leakage_of(row));
    for (const auto& [name, member] : kLastNumbers) text += "," + csv_of(row.*member);
    for (const auto& [k, member] : kRecallAt) text += "," + csv_of(row.*member);
    for (const std::string& cell : axis_cells(row, report)) text += "," + cell;
    text += '\n';
  }
  return text;
}

namespace {

// Over what was averaged, one line for each method with a basis, and for each that is missing.
std::string notes_text(const CompareReport& report) {
  const replay::Comparison& comparison = report.comparison;
  std::string text =
      fmt::format("means over {}{}\n",
                  report.cells == "common" ? "the cells where none of the methods is dense"
                                           : "the cells where the method is not dense itself",
                  report.weights == "queries" ? ", each as often as its chunk has queries" : "");
  for (const CompareRow& row : comparison.rows) {
    if (row.scope != "all" || row.phase != "prefill" || !row.basis) continue;
    text += fmt::format("{}: basis fitted on {}, {} tokens{}\n", printable(row.method),
                        printable(row.basis->source), row.basis->num_tokens,
                        row.basis->leakage ? "; leakage: this trace holds that text" : "");
  }
  for (const replay::UnavailableMethod& entry : comparison.unavailable)
    text += fmt::format("{} is not available: {}\n", printable(entry.method), entry.error.what());
  return text;
}

// A column of the table for people; a share or an error needs digits, a count does not.
struct Column {
  const char* title;
  Number number;
  int digits;
  bool only_where_known = false;  // left out where no method has it
};
constexpr std::array kColumns = {
    Column{"budget", &CompareRow::requested_budget, 1},
    Column{"kept", &CompareRow::effective_budget, 1},
    Column{"recall", &CompareRow::mass_recall, 4},
    Column{"gap", &CompareRow::gap, 4},
    Column{"overlap", &CompareRow::topk_overlap, 4},
    Column{"error", &CompareRow::output_error, 4},
    Column{"density", &CompareRow::density, 4},
    Column{"visible recall", &CompareRow::visible_recall, 4},
    Column{"recall at 1", &CompareRow::recall_at_1, 4, true},
    Column{"recall at 10", &CompareRow::recall_at_10, 4, true},
    Column{"recall at 64", &CompareRow::recall_at_64, 4, true},
    Column{"span kept", &CompareRow::span_kept, 4, true},
    Column{"forced", &CompareRow::forced, 1},
    Column{"KV bytes", &CompareRow::kv_bytes, 1},
    Column{"metadata bytes", &CompareRow::metadata_bytes, 1},
    Column{"native density", &CompareRow::native_density, 4, true},
    Column{"native of causal", &CompareRow::native_density_causal, 4, true},
    Column{"native of rectangle", &CompareRow::native_density_rectangle, 4, true},
    Column{"density of causal", &CompareRow::density_causal, 4, true},
    Column{"density of rectangle", &CompareRow::density_rectangle, 4, true},
};

// Of a phase without a common cell, which a warning tells of.
bool is_without_cells(const CompareRow& row, const replay::Comparison& comparison) {
  const auto& none = comparison.no_common_cell;
  return row.cells == 0 && std::any_of(none.begin(), none.end(),
                                       [&](const auto& entry) { return entry.phase == row.phase; });
}

std::string table_text(const CompareReport& report) {
  const std::vector<CompareRow>& rows = report.comparison.rows;
  std::vector<Column> columns;
  for (const Column& column : kColumns)
    if (!column.only_where_known ||
        std::any_of(rows.begin(), rows.end(),
                    [&](const CompareRow& row) { return is_shown(row.*column.number); }))
      columns.push_back(column);
  std::vector<std::string> header = {"method", "phase", "cells", "fallback"};
  for (const Column& column : columns) header.emplace_back(column.title);
  header.emplace_back("leakage");
  for (const std::string& title : axis_titles(report)) header.push_back(title);
  TextTable table(header);
  for (const CompareRow& row : rows) {
    if (row.scope != "all" || is_without_cells(row, report.comparison)) continue;
    std::vector<std::string> line = {row.method, row.phase, fmt::format("{}", row.cells),
                                     fmt::format("{}", row.fallback_cells)};
    for (const Column& column : columns) {
      const auto& number = row.*column.number;
      line.push_back(is_shown(number) ? fmt::format("{:.{}f}", *number, column.digits) : "-");
    }
    line.emplace_back(leakage_of(row) != 0 ? "yes" : "");
    for (const std::string& cell : axis_cells(row, report)) line.push_back(cell);
    table.add(line);
  }
  return table.text();
}

}  // namespace

std::string compare_text(const CompareReport& report) {
  return table_text(report) + notes_text(report);
}

}  // namespace kvloupe::cli
