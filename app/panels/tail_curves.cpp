#include "app/panels/tail_curves.h"

#include "app/panels/map_plot.h"
#include "app/widgets/ink.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace kvloupe::panels {

using Curve = state::HeavyTailQuestion::Curve;
using Shares = state::HeavyTailQuestion::Shares;

namespace {

// In the upper right corner, where falling curves leave room, one line below the other.
void label_ui(DrawContext& context, int line, ImU32 color, const std::string& text) {
  const ImVec2 size = ImGui::CalcTextSize(text.c_str());
  const ImVec2 origin = ImPlot::GetPlotPos(), room = ImPlot::GetPlotSize();
  const ImVec2 at(origin.x + std::max(0.0F, room.x - size.x - widgets::em(0.4F)),
                  origin.y + widgets::em(0.2F) + size.y * static_cast<float>(line));
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  draw->AddRectFilled(at, {at.x + size.x, at.y + size.y},
                      widgets::with_alpha(context.palette.panel, 0.7F));
  draw->AddText(at, widgets::ink_of(context.palette, color), text.c_str());
}

}  // namespace

void fine_log_ticks(ImAxis axis, double low, double high) {
  std::vector<double> ticks;
  for (double decade = std::pow(10, std::floor(std::log10(low))); decade <= high; decade *= 10)
    for (const int factor : {1, 2, 5})
      if (factor * decade >= low && factor * decade <= high) ticks.push_back(factor * decade);
  ImPlot::SetupAxisTicks(axis, ticks.data(), static_cast<int>(ticks.size()));
}

void tail_curve_ui(const Curve& curve, ImU32 color) {
  constexpr std::size_t kDots = 12;  // the first ranks stand apart from each other
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  std::vector<ImVec2> points;
  for (const auto& [rank, height] : curve.line)
    points.push_back(ImPlot::PlotToPixels(rank, height));
  draw->AddPolyline(points.data(), static_cast<int>(points.size()), color, 0, widgets::em(0.14F));
  for (std::size_t i = 0; i < std::min(kDots, points.size()); ++i)
    draw->AddCircleFilled(points[i], widgets::em(0.19F), color);
}

void power_law_ui(DrawContext& context, const Curve& curve) {
  if (!curve.tail) return;
  const auto end = static_cast<double>(curve.tail->top + 1);
  ImPlot::GetPlotDrawList()->AddLine(
      ImPlot::PlotToPixels(1, curve.tail->at(1)), ImPlot::PlotToPixels(end, curve.tail->at(end)),
      widgets::with_alpha(context.palette.fit, 0.9F), widgets::em(0.12F));
  label_ui(context, 0, context.palette.text, fmt::format("index {:.2f}", curve.tail->index));
}

void half_ui(DrawContext& context, const Shares& shares, ImU32 color, const char* what,
             int label_line) {
  const ImVec2 top = ImPlot::PlotToPixels(static_cast<double>(shares.half),
                                          shares.height(static_cast<std::size_t>(shares.half - 1)));
  const float bottom = ImPlot::GetPlotPos().y + ImPlot::GetPlotSize().y;
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  draw->AddLine(top, {top.x, bottom}, widgets::with_alpha(color, 0.8F), widgets::em(0.08F));
  draw->AddCircleFilled(top, widgets::em(0.34F), color);
  if (ImPlot::GetPlotSize().y > widgets::em(9))  // else they would hide the curves
    label_ui(context, label_line, color,
             fmt::format("half: {} {}", format_count(shares.half), what));
}

std::size_t rank_at(double x, std::size_t count) {
  return static_cast<std::size_t>(std::clamp(std::llround(x), 1LL, static_cast<long long>(count)) -
                                  1);
}

}  // namespace kvloupe::panels
