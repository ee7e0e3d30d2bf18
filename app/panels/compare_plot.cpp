#include "app/panels/compare_plot.h"

#include "app/panels/query_scatter.h"
#include "app/state/number_text.h"
#include "app/state/token_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace kvloupe::panels {
namespace {

using replay::Number;
using state::MethodCompareQuestion;
using Row = MethodCompareQuestion::Row;

constexpr const replay::NumberInfo& kRecall = replay::info_of(Number::MassRecall);

constexpr std::size_t kMostNames = 12;
constexpr float kLeastPlot = 8.5F;  // em, of its height, with the axis

const state::CompareColumn& column_of(Number number) {
  const auto& columns = state::compare_columns();
  return *std::find_if(columns.begin(), columns.end(), [&](const state::CompareColumn& column) {
    return column.number != nullptr && column.number->number == number;
  });
}

Number kept_of(const state::Result<MethodCompareQuestion>& result) {
  return result.question.watched ? Number::SpanKept : Number::TopkOverlap;
}

ImU32 color_of_row(const DrawContext& context, const MethodCompareQuestion& question,
                   const Row& row) {
  for (const state::Slot slot : state::kSlots)
    if (question.is_row_of(context.workspace.method(slot), row))
      return widgets::color_of_slot(context.palette, slot);
  return context.palette.muted;
}

struct Point {
  ImU32 color = 0;
  std::string name;
  double recall = 0, kept = 0;
};

std::vector<Point> points_of(const DrawContext& context,
                             const state::Result<MethodCompareQuestion>& result,
                             const std::vector<std::string>& labels) {
  const trace::Phase phase = result.question.phase();
  const Number kept = kept_of(result);
  std::vector<Point> points;
  for (std::size_t i = 0; i < result->rows.size(); ++i) {
    const Row& row = result->rows[i];
    if (!row.unavailable.empty() || row.averages == nullptr) continue;
    const auto x = state::value_of(row, column_of(Number::MassRecall), phase);
    const auto y = state::value_of(row, column_of(kept), phase);
    if (x && y) points.push_back({color_of_row(context, result.question, row), labels[i], *x, *y});
  }
  return points;
}

// Each name where it lies over the fewest points and names; first those at the right edge, which have the least choice.
void names_ui(ImDrawList* draw, const std::vector<Point>& points, const std::vector<ImVec2>& at) {
  const widgets::FontScope small(widgets::Type::Caption);
  const ImVec2 low = ImPlot::GetPlotPos(), size = ImPlot::GetPlotSize();
  const float near = widgets::em(0.2F);
  std::vector<Circle> taken;
  for (const ImVec2& point : at) taken.push_back({point, near});
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return at[i].x; });
  for (const std::size_t i : order) {
    const ImVec2 words = ImGui::CalcTextSize(points[i].name.c_str());
    const ImVec2 from = place_of_words(at[i], widgets::em(0.55F), widgets::em(0.55F), words, low,
                                       {low.x + size.x, low.y + size.y}, taken);
    draw->AddText(from, points[i].color, points[i].name.c_str());
    for (const float part : {0.0F, 0.25F, 0.5F, 0.75F, 1.0F})
      taken.push_back({{from.x + part * words.x, from.y + words.y / 2}, near});
  }
}

void points_ui(DrawContext& context, const std::vector<Point>& points, Number kept,
               const std::string& name, ImVec2 size) {
  if (!ImPlot::BeginPlot("##compared", size, kScatterFlags)) return;
  const std::string along = widgets::elided(name, size.y - widgets::em(3.5F));
  ImPlot::SetupAxes(kRecall.title, along.c_str(), ImPlotAxisFlags_NoHighlight,
                    ImPlotAxisFlags_NoHighlight);
  const auto fit = [&](ImAxis axis, double Point::*value, double part) {
    const auto [least, most] = std::ranges::minmax(points, {}, value);
    const double pad = std::max(0.02, part * (most.*value - least.*value));
    ImPlot::SetupAxisLimits(axis, least.*value - pad, most.*value + pad, ImPlotCond_Always);
  };
  fit(ImAxis_X1, &Point::recall, 0.12);
  fit(ImAxis_Y1, &Point::kept, 0.18);
  ImPlot::SetupFinish();
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  std::vector<ImVec2> at;
  for (const Point& point : points) at.push_back(ImPlot::PlotToPixels(point.recall, point.kept));
  ImPlot::PushPlotClipRect();
  for (std::size_t i = 0; i < points.size(); ++i)
    draw->AddCircleFilled(at[i], widgets::em(0.32F), points[i].color);
  if (points.size() <= kMostNames) names_ui(draw, points, at);
  ImPlot::PopPlotClipRect();
  float near = widgets::em(0.8F);
  const int under = ImPlot::IsPlotHovered() && !context.figure
                        ? nearest_to_mouse(
                              at.size(), [&](std::size_t i) { return at[i]; }, near)
                        : -1;
  if (under >= 0) {
    const Point& point = points[static_cast<std::size_t>(under)];
    context.workspace.pointer.at(
        {.words = fmt::format("{}\n{} {}\n{} {}", point.name, name,
                              state::number_text(replay::info_of(kept), point.kept), kRecall.title,
                              state::number_text(kRecall, point.recall))});
  }
  ImPlot::EndPlot();
}

}  // namespace

float compare_plot_height(const DrawContext& context,
                          const state::Result<MethodCompareQuestion>& result,
                          const std::vector<std::string>& labels) {
  if (points_of(context, result, labels).size() < 2) return 0;
  if (context.figure) return widgets::em(13);
  return widgets::grid() + 3 * ImGui::GetTextLineHeightWithSpacing() + widgets::em(kLeastPlot);
}

void compare_plot_ui(DrawContext& context, const state::Result<MethodCompareQuestion>& result,
                     const std::vector<std::string>& labels, bool beside) {
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float needed = compare_plot_height(context, result, labels);
  if (needed <= 0 || (context.figure && (room.y < needed || room.x < widgets::em(30)))) return;
  const auto& watched = result.question.watched;
  const Number kept = kept_of(result);
  const std::vector<Point> points = points_of(context, result, labels);
  const std::string name =
      watched ? state::readable_name(watched->name) + " kept" : std::string(column_of(kept).title);
  ImGui::BeginGroup();
  if (!beside) ImGui::Dummy({0, widgets::grid()});
  heading_ui(context, fmt::format("{} against {}", name, kRecall.title), "a point for each method");
  const float height = ImGui::GetContentRegionAvail().y;
  const ImVec2 size(std::min(room.x, widgets::em(60)),
                    std::min(context.figure ? height : std::max(height, widgets::em(kLeastPlot)),
                             widgets::em(24)));
  points_ui(context, points, kept, name, size);
  ImGui::EndGroup();
}

}  // namespace kvloupe::panels
