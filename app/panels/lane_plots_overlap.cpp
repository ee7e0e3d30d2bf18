// How far the largest lanes of a vector are leading directions: violins of the share, by their number.
#include "app/panels/lane_plots.h"

#include <fmt/format.h>
#include <implot/implot.h>

#include <algorithm>

namespace kvloupe::panels {
namespace {

using analysis::LaneOverlap;
using analysis::LaneReport;

std::vector<const LaneOverlap*> find(const LaneReport& report, bool rotated, int largest) {
  std::vector<const LaneOverlap*> found;
  for (const LaneOverlap& overlap : report.overlaps)
    if (overlap.rotated == rotated && overlap.largest == largest) found.push_back(&overlap);
  return found;
}

// K and K' take the same values.
std::vector<int> sizes_of(const LaneReport& report) {
  std::vector<int> sizes;
  for (const LaneOverlap& overlap : report.overlaps) sizes.push_back(overlap.leading);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

ImU32 color_of(const widgets::Palette& p, bool of_keys) {
  return of_keys ? p.series[3] : p.series[0];
}

// Half a violin: as wide as vectors are many, one bar for each share that there can be.
void half_violin_ui(DrawContext& context, const LaneOverlap& overlap, double center) {
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const ImU32 color = color_of(context.palette, overlap.of_keys);
  const double most =
      static_cast<double>(*std::max_element(overlap.counts.begin(), overlap.counts.end()));
  const double side = overlap.of_keys ? 1 : -1, step = 1.0 / overlap.largest;
  for (std::size_t i = 0; i < overlap.counts.size(); ++i) {
    const double width = 0.42 * static_cast<double>(overlap.counts[i]) / most;
    if (width <= 0) continue;
    const double share = static_cast<double>(i) * step;
    // A bar reaches half a step to each side, and no share is below 0 or above 1.
    const ImVec2 a = ImPlot::PlotToPixels(center, std::max(share - step / 2, 0.0));
    const ImVec2 b = ImPlot::PlotToPixels(center + side * width, std::min(share + step / 2, 1.0));
    draw->AddRectFilled({std::min(a.x, b.x), std::min(a.y, b.y)},
                        {std::max(a.x, b.x), std::max(a.y, b.y)},
                        widgets::with_alpha(color, 0.75F));
  }
  const ImVec2 from = ImPlot::PlotToPixels(center, overlap.mean());
  const ImVec2 to = ImPlot::PlotToPixels(center + side * 0.45, overlap.mean());
  draw->AddLine(from, to, context.palette.text, std::max(1.5F, widgets::em(0.1F)));
}

void overlap_plot_ui(DrawContext& context, const LaneReport& r, bool rotated, int largest,
                     const std::vector<int>& sizes, ImVec2 size) {
  if (!ImPlot::BeginPlot(fmt::format("##overlap {} {}", rotated, largest).c_str(), size,
                         ImPlotFlags_CanvasOnly | ImPlotFlags_NoInputs))
    return;
  ImPlot::SetupAxes(rotated ? nullptr : "K\u2032 leading", nullptr, ImPlotAxisFlags_NoGridLines, 0);
  std::vector<double> at;
  std::vector<std::string> texts;
  std::vector<const char*> labels;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    at.push_back(static_cast<double>(i));
    texts.push_back(fmt::format("{}", sizes[i]));
  }
  for (const std::string& text : texts) labels.push_back(text.c_str());
  ImPlot::SetupAxisTicks(ImAxis_X1, at.data(), static_cast<int>(at.size()), labels.data());
  ImPlot::SetupAxisLimits(ImAxis_X1, -0.6, static_cast<double>(sizes.size()) - 0.4,
                          ImPlotCond_Always);
  ImPlot::SetupAxisLimits(ImAxis_Y1, -0.09, 1.09, ImPlotCond_Always);
  ImPlot::SetupFinish();
  ImPlot::PushPlotClipRect();
  for (const LaneOverlap* overlap : find(r, rotated, largest)) {
    const auto place = std::find(sizes.begin(), sizes.end(), overlap->leading) - sizes.begin();
    const auto center = static_cast<double>(place);
    // Chosen at random, K'/K-blind: the share that leads anyway.
    const double chance = static_cast<double>(overlap->leading) / r.head_dim;
    ImPlot::GetPlotDrawList()->AddLine(ImPlot::PlotToPixels(center - 0.48, chance),
                                       ImPlot::PlotToPixels(center + 0.48, chance),
                                       context.palette.faint, std::max(1.0F, widgets::em(0.08F)));
    half_violin_ui(context, *overlap, center);
  }
  ImPlot::PopPlotClipRect();
  ImPlot::EndPlot();
}

void row_title_ui(DrawContext& context, bool rotated) {
  const widgets::FontScope strong(widgets::Type::Strong);
  widgets::text_colored(context.palette.text,
                        rotated ? "Rotated vectors: lanes and directions are the same, as the "
                                  "method works"
                                : "Vectors as stored: lanes by index, as the appendix has it, of "
                                  "another basis than the directions");
}

// Of the smallest K, where leading directions differ most from chance.
std::string finding_of(const LaneReport& report, const std::vector<int>& sizes) {
  for (const LaneOverlap* overlap : find(report, true, sizes.front()))
    if (!overlap->of_keys && overlap->leading == sizes.front())
      return fmt::format(
          "On average over this chunk's queries, {:.0f} % of a query's {} largest lanes are among "
          "the basis' first {} directions; by chance it would be {:.0f} %.",
          100 * overlap->mean(), overlap->largest, overlap->leading,
          100.0 * overlap->leading / report.head_dim);
  return "";
}

}  // namespace

void lane_overlaps_ui(DrawContext& context, const Lanes& result) {
  const LaneReport& r = result->report;
  const std::vector<int> sizes = sizes_of(r);
  headline_ui(context, finding_of(r, sizes));
  widgets::text_wrapped(
      context.palette.text,
      fmt::format(
          "\u03C1: of the K largest lanes of a vector, the share among the first K\u2032 of "
          "{} directions of the basis. Width: vectors; bright line: mean; faint line: chance.",
          r.head_dim));
  widgets::legend_ui(context.palette, {{fmt::format("queries of {} heads", r.q_heads_per_kv_head),
                                        color_of(context.palette, false)},
                                       {"keys", color_of(context.palette, true)}});
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float line = ImGui::GetTextLineHeightWithSpacing();
  const float gap = widgets::em(0.6F);
  const ImVec2 size(
      (room.x - gap * static_cast<float>(sizes.size() - 1)) / static_cast<float>(sizes.size()),
      std::max(widgets::em(8), (room.y - 4 * line) / 2 - gap));
  for (const bool rotated : {true, false}) {
    row_title_ui(context, rotated);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (i > 0) ImGui::SameLine(0, gap);
      ImGui::BeginGroup();
      widgets::text_colored(context.palette.muted, fmt::format("\u03C1, K = {}", sizes[i]));
      overlap_plot_ui(context, r, rotated, sizes[i], sizes, size);
      ImGui::EndGroup();
    }
  }
}

}  // namespace kvloupe::panels
