// The rows as JSON and as CSV.
#include "app/cli/compare_report.h"

#include "app/cli/json_text.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

constexpr const char* kRecallAt = "recall_at_";  // a k follows

// What follows in the JSON; the leakage comes behind the first of its numbers.
constexpr replay::Number kBeforeLeakage = replay::Number::KvBytes;

bool is_in_rows(const NumberInfo& info) { return info.rows != replay::InRows::None; }

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
  if (row.run) json["run"] = *row.run;
  if (!row.grid.empty()) json["index"] = row.grid;
  for (const NumberInfo& info : kNumbers) {
    const std::string name = info.id;
    const ordered_json value = is_in_rows(info) ? json_of(row.numbers[info.number]) : nullptr;
    if (info.rows == replay::InRows::All) json[name] = value;
    if (info.rows == replay::InRows::Decode && row.phase == "decode")
      json["recall_at_k"][name.substr(std::strlen(kRecallAt))] = value;
    if (info.number == kBeforeLeakage) json["leakage"] = leakage_of(row);
  }
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

}  // namespace

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

bool CompareReport::has_runs() const {
  for (const ComparedTrace& trace : traces)
    for (const CompareRow& row : trace.comparison.rows)
      if (row.run) return true;
  return false;
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
  return json;
}

}  // namespace

std::string compare_json(const CompareReport& report) {
  ordered_json json{{"chunk_size", nullptr},         {"cells", report.cells},
                    {"weights", report.weights},     {"traces", ordered_json::array()},
                    {"rows", ordered_json::array()}, {"unavailable", ordered_json::array()}};
  if (report.chunk_size) json["chunk_size"] = *report.chunk_size;
  for (const ComparedTrace& trace : report.traces) {
    json["traces"].push_back(json_of(trace));
    for (const replay::UnavailableMethod& entry : trace.comparison.unavailable) {
      json["unavailable"].push_back({{"method", entry.method}, {"reason", entry.error.what()}});
      if (report.has_several()) json["unavailable"].back()["trace"] = trace.path;
    }
  }
  for (const auto& [row, trace] : rows_of(report)) {
    json["rows"].push_back(json_of(row, report));
    if (report.has_several()) json["rows"].back()["trace"] = trace.path;
  }
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
  for (const NumberInfo& info : kNumbers) {
    if (is_in_rows(info)) text += fmt::format(",{}", info.id);
    if (info.number == kBeforeLeakage) text += ",leakage";
  }
  for (const std::string& title : axis_titles(report)) text += "," + title;
  const bool has_runs = report.has_runs();
  if (has_runs) text += ",run";
  if (report.has_several()) text += ",trace";
  text += '\n';
  for (const auto& [row, trace] : rows_of(report)) {
    text += fmt::format("{},{},{},{},{}", quoted(row.method), row.phase, csv_place(row), row.cells,
                        row.fallback_cells);
    for (const NumberInfo& info : kNumbers) {
      if (is_in_rows(info)) text += "," + csv_of(row.numbers[info.number]);
      if (info.number == kBeforeLeakage) text += fmt::format(",{}", leakage_of(row));
    }
    for (const std::string& cell : axis_cells(row, report)) text += "," + cell;
    if (has_runs) text += row.run ? fmt::format(",{}", *row.run) : ",";
    if (report.has_several()) text += "," + quoted(trace.path);
    text += '\n';
  }
  return text;
}

}  // namespace kvloupe::cli
