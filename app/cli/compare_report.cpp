// The rows as JSON and as CSV.
#include "app/cli/compare_report.h"

#include "app/cli/json_text.h"
#include "app/cli/table_json.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kvloupe::cli {
namespace {

using nlohmann::ordered_json;
using replay::CompareRow;
using replay::kNumbers;
using replay::NumberInfo;
using replay::SweptValue;
using table::Cell;
using table::Column;
using table::Table;

constexpr const char* kRecallAt = "recall_at_";  // a k follows

// What follows among the numbers; the leakage comes behind the first of its numbers.
constexpr replay::Number kBeforeLeakage = replay::Number::KvBytes;

// Counts as whole numbers.
Cell cell_of(const SweptValue& swept) {
  if (!swept.value) return std::nullopt;
  const double value = *swept.value;
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<std::int64_t>(value);
  return value;
}
ordered_json json_of(const std::vector<SweptValue>& values) {
  ordered_json json = ordered_json::object();
  for (const SweptValue& value : values) json[value.name] = cli::json_of(cell_of(value));
  return json;
}

enum class Form { Json, Csv };

// Each number of a row where its form has it, and the leakage: whether the method's basis was fitted on text of the
// trace, so that its figures flatter it.
void add_numbers(const CompareRow& row, Form form, std::vector<Cell>& cells) {
  for (const NumberInfo& info : kNumbers) {
    if (info.rows == replay::InRows::None) continue;
    const bool absent =
        form == Form::Json && info.rows == replay::InRows::Decode && row.phase != "decode";
    cells.push_back(absent ? Cell() : known(row, info.number));
    if (info.number == kBeforeLeakage) cells.emplace_back(row.basis && row.basis->leakage ? 1 : 0);
  }
}

std::vector<Column> columns_of(const CompareReport& report, Form form) {
  std::vector<Column> columns{"method", "phase", "scope", "index", "cells", "fallback_cells"};
  columns.front().quoted = true;
  if (form == Form::Json) columns.emplace_back("run");
  for (const NumberInfo& info : kNumbers) {
    if (info.rows == replay::InRows::None) continue;
    const std::string id = info.id;
    const bool of_k = form == Form::Json && info.rows == replay::InRows::Decode;
    columns.emplace_back(of_k ? "recall_at_k/" + id.substr(std::strlen(kRecallAt)) : id);
    if (info.number == kBeforeLeakage) columns.emplace_back("leakage");
  }
  if (form == Form::Json) return columns;
  for (const std::string& title : axis_titles(report)) columns.emplace_back(title);
  if (report.has_runs()) columns.emplace_back("run");
  if (report.has_several()) columns.emplace_back("trace").quoted = true;
  return columns;
}

// What both forms have is in one order; CSV has the run and the axes at its end, JSON the axes as objects of their own.
Table table_of(const CompareReport& report, Form form) {
  Table table{columns_of(report, form), {}};
  for (const auto& [row, trace] : rows_of(report)) {
    const Cell run = row.run ? Cell(*row.run) : Cell();
    std::vector<Cell>& cells = table.rows.emplace_back(std::vector<Cell>{
        table::MethodText{row.method}, row.phase, row.scope,
        row.grid.empty() ? Cell(row.index) : Cell(row.grid), row.cells, row.fallback_cells});
    if (form == Form::Json) cells.push_back(run);
    add_numbers(row, form, cells);
    if (form == Form::Json) continue;
    for (Cell& cell : axis_cells(row, report)) cells.push_back(std::move(cell));
    if (report.has_runs()) cells.push_back(run);
    if (report.has_several()) cells.emplace_back(trace.path);
  }
  return table;
}

// Of the axis; null where the method has none such.
const SweptValue* find(const std::vector<SweptValue>& values, const std::string& axis) {
  const auto found = std::find_if(values.begin(), values.end(),
                                  [&](const SweptValue& value) { return value.name == axis; });
  return found == values.end() ? nullptr : &*found;
}

}  // namespace

Cell known(const CompareRow& row, replay::Number number) {
  const auto value = row.numbers[number];
  return value && std::isfinite(*value) ? Cell(*value) : Cell(std::nullopt);
}

std::vector<std::string> axis_titles(const CompareReport& report) {
  std::vector<std::string> titles = report.axes;
  if (report.has_target)
    for (const std::string& axis : report.axes) titles.push_back("solved_" + axis);
  return titles;
}
std::vector<Cell> axis_cells(const CompareRow& row, const CompareReport& report) {
  std::vector<Cell> cells;
  const auto add = [&](const std::vector<SweptValue>& values) {
    for (const std::string& axis : report.axes) {
      const SweptValue* const found = find(values, axis);
      cells.push_back(found == nullptr ? Cell() : cell_of(*found));
    }
  };
  add(row.sweep);
  if (report.has_target) add(row.solved);
  return cells;
}

bool CompareReport::has_runs() const {
  for (const ComparedTrace& trace : traces)
    for (const CompareRow& row : trace.comparison.rows)
      if (row.run) return true;
  return false;
}

bool is_closed_loop(const CompareRow& row, const ComparedTrace& trace) {
  const std::vector<int>& runs = trace.closed_loop;
  return row.run && std::find(runs.begin(), runs.end(), *row.run) != runs.end();
}

std::vector<ReportedRow> rows_of(const CompareReport& report) {
  std::vector<ReportedRow> rows;
  for (const ComparedTrace& trace : report.traces)
    for (const CompareRow& row : trace.comparison.rows) rows.push_back({row, trace});
  std::vector<ReportedRow> sorted;
  for (std::size_t method = 0; method < report.short_names.size(); ++method)
    for (const ReportedRow& one : rows)
      if (one.row.method_idx == method) sorted.push_back(one);
  return sorted;
}

namespace {

// What was counted in a trace.
ordered_json json_of(const ComparedTrace& trace) {
  ordered_json json{{"path", trace.path},
                    {"chunks", trace.chunks.empty() ? "all" : trace.chunks},
                    {"span", nullptr}};
  if (trace.span)
    json["span"] = {{"name", trace.span->name},
                    {"begin", trace.span->begin},
                    {"end", trace.span->end},
                    {"from_chunk", trace.span_from_chunk}};
  if (trace.query_chunks) json["query_chunks"] = *trace.query_chunks;
  return json;
}

}  // namespace

std::string compare_json(const CompareReport& report) {
  ordered_json json{{"chunk_size", nullptr},
                    {"cells", report.cells},
                    {"weights", report.weights},
                    {"traces", ordered_json::array()},
                    {"rows", json_rows(table_of(report, Form::Json))},
                    {"unavailable", ordered_json::array()}};
  if (report.chunk_size) json["chunk_size"] = *report.chunk_size;
  for (const ComparedTrace& trace : report.traces) {
    json["traces"].push_back(json_of(trace));
    for (const replay::UnavailableMethod& entry : trace.comparison.unavailable) {
      json["unavailable"].push_back({{"method", entry.method}, {"reason", entry.error.what()}});
      if (report.has_several()) json["unavailable"].back()["trace"] = trace.path;
    }
  }
  std::size_t i = 0;
  for (const auto& [row, trace] : rows_of(report)) {
    ordered_json& of_row = json["rows"][i++];
    if (!report.axes.empty()) of_row["sweep"] = json_of(row.sweep);
    if (report.has_target) of_row["solved"] = json_of(row.solved);
    if (report.has_several()) of_row["trace"] = trace.path;
  }
  return json_text("kvloupe-compare/1", json);
}

std::string compare_csv(const CompareReport& report, table::CsvHead head) {
  return table::csv_text(table_of(report, Form::Csv), head);
}

}  // namespace kvloupe::cli
