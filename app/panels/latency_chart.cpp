#include "app/panels/latency_chart.h"

#include "app/panels/view_frame.h"

#include <fmt/format.h>
#include <implot/implot.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

namespace kvloupe::panels {
namespace {

using measure::LatencyStats;
using state::LatencyPart;

struct Bar {
  const TimedMethod* of = nullptr;
  LatencyPart part;
  double y = 0;
  ImU32 color = 0;
  double floor_ms = 0;  // none: 0
};

// A method's total stands out of its parts.
ImU32 color_of(const widgets::Palette& palette, state::Slot slot, std::size_t part,
               std::size_t parts) {
  if (part + 1 == parts) return palette.current;
  const ImU32 own = widgets::color_of_slot(palette, slot);
  return part + 2 == parts ? own : widgets::mix(palette.panel, own, 0.55);
}

std::vector<Bar> bars_of(const widgets::Palette& palette, const std::vector<TimedMethod>& timed) {
  std::vector<Bar> bars;
  for (std::size_t i = 0; i < timed.size(); ++i) {
    const std::vector<LatencyPart> parts = state::parts_of(*timed[i].latency);
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const double offset = timed.size() == 1 ? 0 : i == 0 ? -0.2 : 0.2;
      bars.push_back({&timed[i], parts[k], static_cast<double>(k) + offset,
                      color_of(palette, timed[i].slot, k, parts.size()),
                      parts[k].name == "attend" && timed[i].latency->floor_holds()
                          ? timed[i].latency->floor_ms
                          : 0});
    }
  }
  return bars;
}

void bar_ui(DrawContext& context, const Bar& bar, double half) {
  const LatencyStats& s = bar.part.stats;
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const ImVec2 from = ImPlot::PlotToPixels(0, bar.y - half);
  const ImVec2 to = ImPlot::PlotToPixels(s.median_ms, bar.y + half);
  draw->AddRectFilled(from, to, bar.color);
  const float cap = std::min(widgets::em(0.35F), (to.y - from.y) * 0.4F), line = widgets::em(0.11F);
  const ImVec2 low = ImPlot::PlotToPixels(s.q25_ms, bar.y);
  const ImVec2 high = ImPlot::PlotToPixels(s.q75_ms, bar.y);
  draw->AddLine(low, high, context.palette.text, line);
  for (const ImVec2 end : {low, high})
    draw->AddLine({end.x, end.y - cap}, {end.x, end.y + cap}, context.palette.text, line);
  const float floor = ImPlot::PlotToPixels(bar.floor_ms, bar.y).x;
  if (bar.floor_ms > 0)
    draw->AddLine({floor, from.y}, {floor, to.y}, context.palette.text, widgets::em(0.2F));
  const std::string text = fmt::format("{:.3g} ms", s.median_ms);
  draw->AddText({std::max({high.x, to.x, floor}) + widgets::em(0.5F),
                 high.y - ImGui::GetTextLineHeight() / 2},
                context.palette.text, text.c_str());
}

// The plot itself takes no input.
void point_at(DrawContext& context, const std::vector<Bar>& bars) {
  const ImVec2 from = ImPlot::GetPlotPos(), size = ImPlot::GetPlotSize();
  if (!ImGui::IsWindowHovered() ||
      !ImGui::IsMouseHoveringRect(from, {from.x + size.x, from.y + size.y}))
    return;
  const double y = ImPlot::GetPlotMousePos().y;
  const Bar& bar = *std::min_element(bars.begin(), bars.end(), [y](const Bar& a, const Bar& b) {
    return std::abs(a.y - y) < std::abs(b.y - y);
  });
  const LatencyStats& s = bar.part.stats;
  const auto& question = bar.of->latency.question;
  context.workspace.pointer.at({.row = fmt::format("{}\t{:.6g}\t{:.6g}\t{:.6g}\t{}", bar.part.name,
                                                   s.median_ms, s.q25_ms, s.q75_ms, s.samples),
                                .place = question.place});
  std::vector<widgets::TooltipLine> lines{
      {fmt::format("{} {}, {}: {:.4g} ms", state::letter_of(bar.of->slot), question.method.id(),
                   bar.part.name, s.median_ms)},
      {fmt::format("quartiles {:.4g} and {:.4g} ms, {} {}", s.q25_ms, s.q75_ms, s.samples,
                   s.samples == 1 ? "sample" : "samples")}};
  if (bar.floor_ms > 0)
    lines.push_back(
        {fmt::format("the line: not less than {:.3g} ms on this machine", bar.floor_ms)});
  widgets::tooltip(std::move(lines));
}

void axes(const std::vector<Bar>& bars, std::size_t parts) {
  double longest = 1e-6;
  for (const Bar& bar : bars)
    longest = std::max({longest, bar.part.stats.q75_ms, bar.part.stats.median_ms});
  ImPlot::SetupAxes(nullptr, nullptr, 0, ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_Invert);
  ImPlot::SetupAxisFormat(ImAxis_X1, "%g ms");
  // Room for the number right of the longest bar.
  const float width = std::max(ImGui::GetContentRegionAvail().x, widgets::em(20));
  const double room = widgets::em(7) / (width - widgets::em(13));
  ImPlot::SetupAxesLimits(0, longest * (1 + std::clamp(room, 0.15, 1.0)), -0.6,
                          static_cast<double>(parts) - 0.4, ImPlotCond_Always);
  std::vector<double> rows;
  std::vector<std::string> texts;
  for (std::size_t k = 0; k < parts; ++k) {
    rows.push_back(static_cast<double>(k));
    texts.push_back(k + 1 == parts ? "dense" : bars[k].part.name);
    // A method of blocks walks tables where another one gathers.
    if (const std::string& other = bars[bars.size() - parts + k].part.name;
        k + 1 < parts && other != texts.back())
      texts.back() += ", " + other;
  }
  std::vector<const char*> names;
  for (const std::string& text : texts) names.push_back(text.c_str());
  ImPlot::SetupAxisTicks(ImAxis_Y1, rows.data(), static_cast<int>(rows.size()), names.data());
  ImPlot::SetupFinish();
}

}  // namespace

void latency_chart_ui(DrawContext& context, const std::vector<TimedMethod>& timed, float height) {
  const std::vector<Bar> bars = bars_of(context.palette, timed);
  const std::size_t parts = bars.size() / timed.size();
  const bool several = timed.size() > 1;
  const float room =
      std::clamp(height - 1, widgets::em(several ? 15 : 8.5F), widgets::em(several ? 32 : 24));
  if (!ImPlot::BeginPlot("##latency", {-1, room}, ImPlotFlags_CanvasOnly | ImPlotFlags_NoInputs))
    return;
  axes(bars, parts);
  ImPlot::PushPlotClipRect();
  for (const Bar& bar : bars) bar_ui(context, bar, several ? 0.17 : 0.3);
  ImPlot::PopPlotClipRect();
  if (!context.figure) point_at(context, bars);
  ImPlot::EndPlot();
}

}  // namespace kvloupe::panels
