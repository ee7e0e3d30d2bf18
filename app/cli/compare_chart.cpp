#include "app/cli/compare_chart.h"

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

namespace kvloupe::cli {
namespace {

using replay::CompareRow;

constexpr const char* kSolved = "solved";

bool is_scope(const std::string& name) {
  return name == "layer" || name == "kv_head" || name == "chunk";
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::optional<double> value_of(const std::vector<replay::SweptValue>& values,
                               const std::string& name) {
  for (const replay::SweptValue& value : values)
    if (value.name == name) return value.value;
  return std::nullopt;
}

// A number that the rows have; null: none is called so.
const replay::NumberInfo* row_number(const std::string& name) {
  const replay::NumberInfo* const info = replay::find_number(name);
  return info != nullptr && info->rows != replay::InRows::None ? info : nullptr;
}
std::optional<double> number_of(const CompareRow& row, const std::string& name) {
  return row.numbers[row_number(name)->number];
}

std::optional<double> x_of(const CompareRow& row, const CompareReport& report,
                           const std::string& x) {
  if (is_scope(x)) return row.index;
  if (contains(report.axes, x)) return value_of(row.sweep, x);
  return number_of(row, x);
}
std::optional<double> y_of(const CompareRow& row, const CompareReport& report,
                           const std::string& y) {
  return y == kSolved ? value_of(row.solved, report.axes.front()) : number_of(row, y);
}

// What sets the lines of one method apart: the values of all that is swept and not drawn.
std::string rest_of(const CompareRow& row, const CompareReport& report, const ChartAxes& axes) {
  std::string text;
  for (const std::string& name : report.axes) {
    const bool drawn =
        name == axes.x || (axes.y == kSolved && name == report.axes.front()) ||
        // The curve of a number against another runs through the first.
        (!is_scope(axes.x) && !contains(report.axes, axes.x) && name == report.axes.front());
    const auto value = value_of(row.sweep, name);
    if (!drawn && value) text += fmt::format(" {}={}", name, format_shortest(*value));
  }
  return text;
}

std::string traces_of(const CompareReport& report) {
  std::vector<std::string> names;
  for (const ComparedTrace& trace : report.traces)
    names.push_back(std::filesystem::path(trace.path).filename().string());
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

ChartAxes chart_axes(ChartAxes axes, const std::vector<std::string>& swept, bool has_target) {
  const replay::NumberInfo* const drawn = row_number(axes.y);
  const bool of_decode = drawn != nullptr && drawn->rows == replay::InRows::Decode;
  if (axes.phase.empty()) axes.phase = of_decode ? "decode" : "prefill";
  if (of_decode && axes.phase == "prefill")
    throw usage_error(fmt::format("--y {} is not of prefill", printable(axes.y)),
                      "it is computed for decode steps alone", "leave out --phase");
  if (axes.y.empty()) axes.y = has_target ? kSolved : "mass_recall";
  if (axes.x.empty() && !swept.empty()) axes.x = swept.front();
  if (axes.x.empty())
    throw usage_error("the picture has no horizontal axis", "nothing is swept",
                      "add --sweep, or --x layer, --x kv_head, --x chunk");
  if (axes.y == kSolved && (!has_target || axes.x == swept.front()))
    throw usage_error("--y solved has nothing to draw",
                      has_target ? fmt::format("one value solves all along {}", axes.x)
                                 : std::string("there is no target"),
                      "give --target, --sweep and --x layer, kv_head or chunk");
  const auto known = [&](const std::string& name) { return row_number(name) != nullptr; };
  if (!is_scope(axes.x) && !contains(swept, axes.x) && !known(axes.x))
    throw usage_error(fmt::format("--x {} is not known", printable(axes.x)),
                      "it is neither swept, nor a place, nor a column of numbers",
                      "name a parameter swept, layer, kv_head, chunk or a number such as density");
  if (axes.y != kSolved && !known(axes.y))
    throw usage_error(fmt::format("--y {} is not known", printable(axes.y)),
                      "no column of numbers has this name",
                      "name one as in the CSV, such as mass_recall or output_error");
  return axes;
}

figure::Chart compare_chart(const CompareReport& report, const ChartAxes& axes,
                            const std::vector<std::string>& methods) {
  const std::string scope = is_scope(axes.x) ? axes.x : "all";
  const std::string& phase = axes.phase;
  std::vector<std::string> order;
  std::map<std::string, std::map<double, double>> points;
  for (const auto& [row, trace] : rows_of(report)) {
    if (row.scope != scope || row.phase != phase) continue;
    const auto x = x_of(row, report, axes.x), y = y_of(row, report, axes.y);
    if (!x || !y) continue;
    const std::string where = report.has_several() ? "  " + trace.title : "";
    const std::string name =
        printable(methods[row.method_idx] + rest_of(row, report, axes) + where);
    if (!contains(order, name)) order.push_back(name);
    points[name][*x] = *y;
  }
  if (order.empty())
    throw input_error("nothing can be drawn",
                      fmt::format("no {} row has both {} and {}", phase, axes.x, axes.y),
                      "see the rows for the numbers that there are");
  figure::Chart chart;
  for (const std::string& name : order) {
    figure::ChartLine& line = chart.lines.emplace_back();
    line.name = name;
    for (const auto& [x, y] : points[name]) {
      line.x.push_back(x);
      line.y.push_back(y);
    }
  }
  chart.y_label =
      axes.y == kSolved ? "smallest " + report.axes.front() + " that is enough" : axes.y;
  chart.x_label = axes.x;
  chart.title = fmt::format("{} by {}", chart.y_label, axes.x);
  chart.caption =
      fmt::format("{}  \u00B7  means over {} {}  \u00B7  open loop", printable(traces_of(report)),
                  phase == "decode" ? "decode steps" : "prefill chunks",
                  report.cells == "common" ? "in which none of the methods is dense"
                                           : "in which each method selects");
  chart.log_x = !is_scope(axes.x) && figure::spans_octaves(chart.lines, true);
  const replay::NumberInfo* const info = row_number(axes.y);
  chart.share = info != nullptr && info->is_share();
  chart.log_y = !chart.share && figure::spans_octaves(chart.lines, false);
  return chart;
}

}  // namespace kvloupe::cli
