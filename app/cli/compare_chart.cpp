#include "app/cli/compare_chart.h"

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

namespace kvloupe::cli {
namespace {

using replay::CompareRow;

constexpr const char* kSolved = "solved";
constexpr const char* kBetween = "  \u00B7  ";  // parts of the caption

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

// One text of each trace, after its name where they are not all the same.
void add_of_traces(const CompareReport& report, std::string (*text_of)(const ComparedTrace&),
                   std::vector<std::string>& parts) {
  const std::string first = text_of(report.traces.front());
  const bool alike =
      std::all_of(report.traces.begin(), report.traces.end(),
                  [&](const ComparedTrace& trace) { return text_of(trace) == first; });
  if (alike && !first.empty()) parts.push_back(first);
  for (const ComparedTrace& trace : report.traces)
    if (const std::string text = text_of(trace); !alike && !text.empty())
      parts.push_back(fmt::format("{}: {}", printable(trace.title), text));
}

// What is averaged, where that is not all that there is.
std::vector<std::string> limits_of(const CompareReport& report, const ChartAxes& axes) {
  std::vector<std::string> parts;
  if (report.weights == "queries") parts.emplace_back(kByQueries);
  if (!report.layers.empty()) parts.push_back(report.layers);
  add_of_traces(
      report, [](const ComparedTrace& trace) { return trace.chunks; }, parts);
  const std::string span_kept = replay::info_of(replay::Number::SpanKept).id;
  if (axes.x == span_kept || axes.y == span_kept) add_of_traces(report, span_text, parts);
  if (report.chunk_size)
    parts.push_back(fmt::format("the prompt is cut anew into chunks of {}", *report.chunk_size));
  return parts;
}

// What a line is drawn from: rows of one method on one trace, with one value of each of the rest.
struct Curve {
  std::size_t method = 0;  // in the list
  const ComparedTrace* trace = nullptr;
  std::string rest;
  std::map<double, double> points;  // y by x
  std::optional<double> all_along;  // y of a method that has no such x
};

struct Curves {
  std::vector<Curve> list;
  bool open_loop = false, closed_loop = false;  // of the rows drawn

  Curve& of(std::size_t method, const ComparedTrace& trace, const std::string& rest) {
    for (Curve& curve : list)
      if (curve.method == method && curve.trace == &trace && curve.rest == rest) return curve;
    return list.emplace_back(Curve{method, &trace, rest, {}, {}});
  }
  std::string mode() const {
    if (!closed_loop) return "open loop";
    return open_loop ? "open loop and recorded in closed loop" : "recorded in closed loop";
  }
};

Curves curves_of(const CompareReport& report, const ChartAxes& axes,
                 const replay::SweepPlan& plan) {
  const std::string scope = is_scope(axes.x) ? axes.x : "all";
  Curves curves;
  for (const auto& [row, trace] : rows_of(report)) {
    if (row.scope != scope || row.phase != axes.phase) continue;
    const auto x = x_of(row, report, axes.x), y = y_of(row, report, axes.y);
    if (!y || (!x && !contains(report.axes, axes.x))) continue;
    Curve& curve =
        curves.of(plan.variants[row.method_idx].method, trace, rest_of(row, report, axes));
    if (x)
      curve.points[*x] = *y;
    else
      curve.all_along = y;
    (is_closed_loop(row, trace) ? curves.closed_loop : curves.open_loop) = true;
  }
  // What the others are compared with comes last.
  std::stable_partition(curves.list.begin(), curves.list.end(),
                        [](const Curve& curve) { return !curve.points.empty(); });
  return curves;
}

// Dashed ones reach as far as the others do.
std::vector<figure::ChartLine> lines_of(const Curves& curves, const CompareReport& report,
                                        const std::vector<std::string>& names) {
  std::vector<figure::ChartLine> lines;
  std::optional<std::pair<double, double>> range;
  for (const Curve& curve : curves.list) {
    figure::ChartLine& line = lines.emplace_back();
    const std::string where = report.has_several() ? "  " + curve.trace->title : "";
    line.name = printable(names.at(curve.method) + curve.rest + where);
    for (const auto& [x, y] : curve.points) {
      line.x.push_back(x);
      line.y.push_back(y);
      range = range ? std::pair(std::min(range->first, x), std::max(range->second, x))
                    : std::pair(x, x);
    }
    line.reference = curve.points.empty();
    if (!line.reference || !range) continue;
    line.x = {range->first, range->second};
    line.y = {*curve.all_along, *curve.all_along};
  }
  if (!range) lines.clear();
  return lines;
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

std::vector<std::string> names_in_chart(const std::vector<replay::MethodName>& methods,
                                        const std::vector<std::string>& swept) {
  const auto is_of_all = [](const replay::MethodName& one) { return one.spec && one.text.empty(); };
  std::vector<std::string> names;
  for (const replay::MethodName& method : methods)
    names.push_back(is_of_all(method) ? method.spec->id() : method.text);
  const std::vector<std::string> first = names;
  for (std::size_t i = 0; i < methods.size(); ++i)
    if (is_of_all(methods[i]) && std::count(first.begin(), first.end(), first[i]) > 1)
      names[i] = replay::short_name(*methods[i].spec, swept);
  return names;
}

figure::Chart compare_chart(const CompareReport& report, const ChartAxes& axes,
                            const replay::SweepPlan& plan, const std::vector<std::string>& names) {
  const Curves curves = curves_of(report, axes, plan);
  figure::Chart chart;
  chart.lines = lines_of(curves, report, names);
  if (chart.lines.empty())
    throw input_error("nothing can be drawn",
                      fmt::format("no {} row has both {} and {}", axes.phase, axes.x, axes.y),
                      "see the rows for the numbers that there are");
  chart.y_label =
      axes.y == kSolved ? "smallest " + report.axes.front() + " that is enough" : axes.y;
  chart.x_label = axes.x;
  chart.title = fmt::format("{} by {}", chart.y_label, axes.x);
  std::vector<std::string> parts{
      printable(traces_of(report)),
      fmt::format("means over {} {}", axes.phase == "decode" ? "decode steps" : "prefill chunks",
                  report.cells == "common" ? "in which none of the methods is dense"
                                           : "in which each method selects")};
  for (std::string& part : limits_of(report, axes)) parts.push_back(std::move(part));
  parts.push_back(curves.mode());
  chart.caption = fmt::format("{}", fmt::join(parts, kBetween));
  chart.log_x = !is_scope(axes.x) && figure::spans_octaves(chart.lines, true);
  const replay::NumberInfo* const info = row_number(axes.y);
  chart.share = info != nullptr && info->is_share();
  chart.log_y = !chart.share && figure::spans_octaves(chart.lines, false);
  return chart;
}

}  // namespace kvloupe::cli
