// The rows of `kvloupe compare` for people: what was averaged, and a table a phase.
#include "app/cli/compare_report.h"
#include "app/cli/text_table.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

namespace kvloupe::cli {
namespace {

using replay::CompareRow;

// A terminal, and what a mail or a review shows without wrapping.
constexpr std::size_t kWidth = 120;

// A share or an error needs digits, a count does not. Some stand in every table, some where a row of the
// phase has them; the rest are asked for by --columns.
enum class Shown { Always, WhereKnown, OnRequest };
struct Column {
  const char* name;  // as in the CSV
  const char* title;
  CompareNumber number;
  int digits;
  Shown shown;
};
constexpr std::array kColumns = {
    Column{"requested_budget", "budget", &CompareRow::requested_budget, 0, Shown::WhereKnown},
    Column{"effective_budget", "kept", &CompareRow::effective_budget, 1, Shown::Always},
    Column{"mass_recall", "recall", &CompareRow::mass_recall, 4, Shown::Always},
    Column{"gap", "gap", &CompareRow::gap, 4, Shown::Always},
    Column{"topk_overlap", "overlap", &CompareRow::topk_overlap, 4, Shown::OnRequest},
    Column{"output_error", "error", &CompareRow::output_error, 4, Shown::Always},
    Column{"density", "density", &CompareRow::density, 4, Shown::Always},
    Column{"visible_recall", "visible recall", &CompareRow::visible_recall, 4, Shown::OnRequest},
    Column{"span_kept", "span kept", &CompareRow::span_kept, 4, Shown::WhereKnown},
    Column{"recall_at_1", "at 1", &CompareRow::recall_at_1, 4, Shown::WhereKnown},
    Column{"recall_at_10", "at 10", &CompareRow::recall_at_10, 4, Shown::WhereKnown},
    Column{"recall_at_64", "at 64", &CompareRow::recall_at_64, 4, Shown::WhereKnown},
    Column{"forced", "by rule", &CompareRow::forced, 1, Shown::OnRequest},
    Column{"kv_bytes", "KV bytes", &CompareRow::kv_bytes, 0, Shown::OnRequest},
    Column{"metadata_bytes", "metadata bytes", &CompareRow::metadata_bytes, 0, Shown::OnRequest},
    Column{"native_density", "native density", &CompareRow::native_density, 4, Shown::OnRequest},
    Column{"native_density_causal", "native of causal", &CompareRow::native_density_causal, 4,
           Shown::OnRequest},
    Column{"native_density_rectangle", "native of rectangle", &CompareRow::native_density_rectangle,
           4, Shown::OnRequest},
    Column{"density_causal", "density of causal", &CompareRow::density_causal, 4, Shown::OnRequest},
    Column{"density_rectangle", "density of rectangle", &CompareRow::density_rectangle, 4,
           Shown::OnRequest},
};
constexpr const char* kAll = "all";

bool is_known(const std::optional<double>& number) { return number && std::isfinite(*number); }

std::vector<Column> columns_of(const CompareReport& report, const std::vector<ReportedRow>& rows) {
  const auto known = [&](const Column& column) {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const ReportedRow& one) { return is_known(one.row.*column.number); });
  };
  std::vector<Column> columns;
  if (report.columns.empty() || report.columns.front() == kAll) {
    const bool all = !report.columns.empty();
    for (const Column& column : kColumns)
      if (all || column.shown == Shown::Always ||
          (column.shown == Shown::WhereKnown && known(column)))
        columns.push_back(column);
    return columns;
  }
  for (const std::string& name : report.columns)
    for (const Column& column : kColumns)
      if (name == column.name) columns.push_back(column);
  return columns;
}

std::string table_text(const CompareReport& report, const std::vector<ReportedRow>& rows) {
  const std::vector<Column> columns = columns_of(report, rows);
  std::vector<std::string> header = {"method"};
  if (report.has_several()) header.emplace_back("trace");
  header.insert(header.end(), {"cells"});
  for (const Column& column : columns) header.emplace_back(column.title);
  for (const std::string& title : axis_titles(report)) header.push_back(title);
  TextTable table(header);
  for (const auto& [row, trace] : rows) {
    std::vector<std::string> line = {title_of(row, report)};
    if (report.has_several()) line.push_back(trace.title);
    line.push_back(fmt::format("{}", row.cells));
    for (const Column& column : columns) {
      const auto& number = row.*column.number;
      line.push_back(is_known(number) ? fmt::format("{:.{}f}", *number, column.digits) : "-");
    }
    for (const std::string& cell : axis_cells(row, report)) line.push_back(cell);
    table.add(line);
  }
  return report.full ? table.text() : table.text(kWidth);
}

// Which chunks, and whose keys are watched: after `name` where there are several traces.
std::string counted_text(const ComparedTrace& trace, const std::string& name) {
  std::string text =
      fmt::format("{}{}\n", name, trace.chunks.empty() ? "all chunks" : trace.chunks);
  if (!trace.span) return text;
  text += fmt::format("{}span kept: of {} (tokens {} to {})", name, printable(trace.span->name),
                      trace.span->begin, trace.span->end - 1);
  if (trace.span_from_question)
    text += fmt::format(", from the question on (chunk {})", trace.span_from_chunk);
  return text + "\n";
}

std::string heading(const CompareReport& report) {
  std::string text =
      fmt::format("means over {}{}\n",
                  report.cells == "common" ? "the cells where none of the methods is dense"
                                           : "the cells where each method is not dense itself",
                  report.weights == "queries" ? ", each as often as its chunk has queries" : "");
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

// Of a phase without a common cell, which a warning tells of.
bool lacks_common_cells(const ReportedRow& one) {
  const auto& none = one.trace.comparison.no_common_cell;
  return one.row.cells == 0 && std::any_of(none.begin(), none.end(), [&](const auto& entry) {
           return entry.phase == one.row.phase;
         });
}

}  // namespace

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
  for (const Column& column : kColumns) known.emplace_back(column.name);
  for (const std::string& name : columns) {
    const bool alone = name != kAll || columns.size() == 1;
    if (alone && std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw usage_error(fmt::format("--columns {} is not valid", printable(name)),
                      fmt::format("the table has {}", fmt::join(known, ", ")),
                      "write some of these, separated by commas, or all alone");
  }
}

std::string compare_text(const CompareReport& report) {
  std::string text = heading(report);
  std::map<std::string, std::vector<ReportedRow>> phases;
  const auto all = rows_of(report);
  for (const ReportedRow& one : all)
    if (one.row.scope == "all" && !lacks_common_cells(one)) phases[one.row.phase].push_back(one);
  const std::string below = notes(report);
  if (phases.empty())
    return "No cell is averaged, as the warnings say.\n" + (below.empty() ? "" : "\n" + below);
  for (const char* phase : {"prefill", "decode"})
    if (const auto rows = phases.find(phase); rows != phases.end())
      text += fmt::format("\n{}{}", phases.size() > 1 ? fmt::format("{}\n", phase) : "",
                          table_text(report, rows->second));
  return below.empty() ? text : text + "\n" + below;
}

}  // namespace kvloupe::cli
