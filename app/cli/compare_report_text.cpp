// The rows of `kvloupe compare` for people: what was averaged, and a table a phase.
#include "app/cli/compare_report.h"
#include "core/base/error.h"
#include "core/base/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

namespace kvloupe::cli {
namespace {

using replay::CompareRow;
using replay::Number;
using replay::NumberInfo;
using table::Cell;
using table::Table;

// What is read first; the other numbers follow in the order of their table.
constexpr std::array kFirst = {Number::RequestedBudget, Number::EffectiveBudget, Number::MassRecall,
                               Number::Gap};
constexpr const char* kAll = "all";

// Those that a table may have, in the order in which it shows them.
std::vector<NumberInfo> all_columns() {
  std::vector<NumberInfo> columns;
  for (const Number number : kFirst) columns.push_back(info_of(number));
  for (const NumberInfo& info : replay::kNumbers)
    if (info.rows != replay::InRows::None &&
        std::find(kFirst.begin(), kFirst.end(), info.number) == kFirst.end())
      columns.push_back(info);
  return columns;
}

std::vector<NumberInfo> columns_of(const CompareReport& report,
                                   const std::vector<ReportedRow>& rows) {
  const auto is_due = [&](const NumberInfo& info) {
    if (info.column != replay::Column::WhereKnown) return info.column == replay::Column::Always;
    return std::any_of(rows.begin(), rows.end(), [&](const ReportedRow& one) {
      return !known(one.row, info.number).is_empty();
    });
  };
  std::vector<NumberInfo> columns = all_columns();
  if (report.columns.empty()) {
    std::erase_if(columns, [&](const NumberInfo& info) { return !is_due(info); });
  } else if (report.columns.front() != kAll) {
    columns.clear();
    for (const std::string& name : report.columns) columns.push_back(*replay::find_number(name));
  }
  return columns;
}

Table table_of(const CompareReport& report, const std::vector<ReportedRow>& rows) {
  const std::vector<NumberInfo> numbers = columns_of(report, rows);
  Table table{{"method"}, {}};
  if (report.has_several()) table.columns.emplace_back("trace");
  table.columns.emplace_back("cells");
  for (const NumberInfo& info : numbers) table.columns.emplace_back(info.number);
  for (const std::string& title : axis_titles(report)) table.columns.emplace_back(title, title);
  for (const auto& [row, trace] : rows) {
    std::vector<Cell>& cells =
        table.rows.emplace_back(1, Cell(table::MethodText{title_of(row, report)}));
    if (report.has_several()) cells.emplace_back(trace.title);
    cells.emplace_back(row.cells);
    for (const NumberInfo& info : numbers) cells.push_back(known(row, info.number));
    for (Cell& cell : axis_cells(row, report)) cells.push_back(std::move(cell));
  }
  return table;
}

// Which chunks, and whose keys are watched: after `name` where there are several traces.
std::string counted_text(const ComparedTrace& trace, const std::string& name) {
  const std::string chunks = name + (trace.chunks.empty() ? "all chunks" : trace.chunks) + "\n";
  return trace.span ? chunks + name + span_text(trace) + "\n" : chunks;
}

std::string heading(const CompareReport& report) {
  std::string text = report.cells == "common"
                         ? "means over the cells where none of the methods is dense"
                         : "means over the cells where each method is not dense itself";
  if (report.weights == "queries") text += fmt::format(", {}", kByQueries);
  text += "\n";
  if (!report.layers.empty()) text += report.layers + "\n";
  for (const ComparedTrace& trace : report.traces)
    text += counted_text(trace, report.has_several() ? printable(trace.title) + ": " : "");
  return text;
}

// Each sentence once, before the names of all that it is true of.
std::string notes(const CompareReport& report) {
  std::map<std::string, std::vector<std::string>> by_note;
  const auto note = [&](const std::string& sentence, const std::string& name) {
    auto& names = by_note[sentence];
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const auto& [row, trace] : rows_of(report)) {
    if (row.scope != "all" || row.phase != "prefill" || !row.basis) continue;
    note(fmt::format("basis fitted on {}, {} tokens{}", printable(row.basis->source),
                     row.basis->num_tokens,
                     row.basis->leakage ? "; leakage: this trace holds that text" : ""),
         title_of(row, report));
  }
  for (const ComparedTrace& trace : report.traces)
    for (const replay::UnavailableMethod& entry : trace.comparison.unavailable)
      note(fmt::format("not available{}: {}",
                       report.has_several() ? " in " + printable(trace.title) : "",
                       entry.error.what()),
           short_text(entry.method));
  std::string text;
  for (const auto& [sentence, names] : by_note)
    text += fmt::format("{}: {}\n", printable(fmt::format("{}", fmt::join(names, "; "))), sentence);
  return text;
}

// Whether the row's phase has no common cell; a warning says so elsewhere.
bool lacks_common_cells(const ReportedRow& one) {
  const auto& none = one.trace.comparison.no_common_cell;
  return one.row.cells == 0 && std::any_of(none.begin(), none.end(), [&](const auto& entry) {
           return entry.phase == one.row.phase;
         });
}

}  // namespace

std::string span_text(const ComparedTrace& trace) {
  if (!trace.span) return {};
  std::string text = fmt::format("span kept: of {} (tokens {} to {})", printable(trace.span->name),
                                 trace.span->begin, trace.span->end - 1);
  if (trace.span_from_question)
    text += fmt::format(", from the question on (chunk {})", trace.span_from_chunk);
  return text;
}

std::string short_text(const std::string& method) {
  const replay::MethodName name(method);
  return name.spec ? replay::short_name(*name.spec) : method;
}

std::string title_of(const CompareRow& row, const CompareReport& report) {
  if (row.run)
    return fmt::format("run {}: {}", *row.run, report.full ? row.method : short_text(row.method));
  return report.full ? row.method : report.short_names.at(row.method_idx);
}

void check_columns(const std::vector<std::string>& columns) {
  std::vector<std::string> known = {kAll};
  for (const NumberInfo& info : all_columns()) known.emplace_back(info.id);
  for (const std::string& name : columns) {
    const bool alone = name != kAll || columns.size() == 1;
    if (alone && std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw usage_error(fmt::format("--columns {} is not valid", printable(name)),
                      fmt::format("the table has {}", fmt::join(known, ", ")),
                      "write some of these, separated by commas, or all alone");
  }
}

namespace {

// The rows of a phase, of all cells at once.
struct PhaseRows {
  const char* phase;
  std::vector<ReportedRow> rows;
};
std::vector<PhaseRows> phases_of(const CompareReport& report) {
  std::vector<PhaseRows> phases{{"prefill", {}}, {"decode", {}}};
  for (PhaseRows& phase : phases)
    for (const ReportedRow& one : rows_of(report))
      if (one.row.scope == "all" && one.row.phase == phase.phase && !lacks_common_cells(one))
        phase.rows.push_back(one);
  std::erase_if(phases, [](const PhaseRows& phase) { return phase.rows.empty(); });
  return phases;
}

}  // namespace

std::string compare_text_as(const CompareReport& report,
                            const std::function<std::string(const Table&)>& format) {
  std::string text;
  for (const PhaseRows& phase : phases_of(report))
    text += (text.empty() ? "" : "\n") + format(table_of(report, phase.rows));
  return text;
}

std::string compare_text(const CompareReport& report) {
  const std::vector<PhaseRows> phases = phases_of(report);
  const std::string below = notes(report);
  if (phases.empty())
    return "No cell is averaged, as the warnings say.\n" + (below.empty() ? "" : "\n" + below);
  std::string text = heading(report);
  for (const PhaseRows& phase : phases) {
    text += phases.size() > 1 ? fmt::format("\n{}\n", phase.phase) : "\n";
    text += table::terminal_text(table_of(report, phase.rows),
                                 report.full ? table::kAnyWidth : table::kTerminalWidth);
  }
  return below.empty() ? text : text + "\n" + below;
}

}  // namespace kvloupe::cli
