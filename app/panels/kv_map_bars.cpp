#include "app/panels/kv_map_bars.h"

#include "core/base/units.h"
#include "core/replay/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace kvloupe::panels {
namespace {

using analysis::KeptBy;
using Map = state::Result<state::KvMapQuestion>;
using Recall = state::Result<state::RecallQuestion>;
using Difference = state::Result<state::KvDifferenceQuestion>;

// Bars of 0 to 1 over the map's rows. False where nothing is to be drawn; else EndPlot() follows.
bool begin_bars(const char* id, const char* title, ImPlotRange& y_range, ImVec2 size, bool x_axis) {
  constexpr ImPlotFlags kFlags = ImPlotFlags_CanvasOnly | ImPlotFlags_NoFrame;
  if (!ImPlot::BeginPlot(id, size, kFlags)) return false;
  ImPlot::SetupAxes(x_axis ? title : nullptr, nullptr,
                    ImPlotAxisFlags_NoHighlight | ImPlotAxisFlags_Lock |
                        (x_axis ? 0 : ImPlotAxisFlags_NoTickLabels),
                    ImPlotAxisFlags_NoDecorations | ImPlotAxisFlags_Invert);
  ImPlot::SetupAxisLimits(ImAxis_X1, 0, 1.0, ImPlotCond_Always);
  static const double kTicks[] = {0, 0.5, 1};
  // The 0 would run into the last number of the keys' axis.
  const char* const labels[] = {"", "0.5", "1"};
  ImPlot::SetupAxisTicks(ImAxis_X1, kTicks, 3, labels);
  ImPlot::SetupAxisLinks(ImAxis_Y1, &y_range.Min, &y_range.Max);
  ImPlot::SetupFinish();
  return true;
}

// The chunks in view, half-open.
std::pair<std::size_t, std::size_t> chunks_in_view(const ImPlotRange& y_range, std::size_t count) {
  return {static_cast<std::size_t>(std::max(0.0, std::floor(y_range.Min))),
          std::min(count, static_cast<std::size_t>(std::max(0.0, std::ceil(y_range.Max))))};
}

void recall_bar(DrawContext& context, const Map& map, std::size_t chunk, double recall) {
  if (!map->map.knows(chunk)) return;
  const bool dense = map->facts.keeps_every_key() || map->map.chunks[chunk].begin == 0 ||
                     map->facts.at(static_cast<int>(chunk)).dense.has_value();
  const bool here = static_cast<int>(chunk) == map.question.place.chunk;
  const ImVec2 from = ImPlot::PlotToPixels(0, static_cast<double>(chunk) + 0.12);
  const ImVec2 to = ImPlot::PlotToPixels(recall, static_cast<double>(chunk) + 0.88);
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  // Bars that the mean leaves out are pale.
  const bool counts = state::number_chunks(context.workspace.selection().numbers,
                                           map.question.place, state::NumberScope::Kind::All)
                          .has(static_cast<int>(chunk));
  const ImU32 bar = dense ? context.palette.dense
                          : widgets::mix(context.palette.panel, context.palette.hit,
                                         !counts ? 0.3
                                         : here  ? 1.0
                                                 : 0.75);
  draw->AddRectFilled(from, to, bar);
  const widgets::FontScope small(widgets::Type::Caption);
  if (std::abs(to.y - from.y) < ImGui::GetTextLineHeight() * 0.9F) return;
  const std::string text = dense ? std::string("all kept") : fmt::format("{:.2f}", recall);
  const float width = ImGui::CalcTextSize(text.c_str()).x;
  const float y = (from.y + to.y - ImGui::GetTextLineHeight()) / 2;
  const bool inside = to.x - from.x > width + widgets::em(0.6F);
  draw->AddText({inside ? to.x - width - widgets::em(0.3F) : to.x + widgets::em(0.3F), y},
                inside ? widgets::ink_on(bar) : context.palette.muted, text.c_str());
}

// The count in the middle of its part, where it fits.
void count_in(ImDrawList* draw, ImVec2 from, ImVec2 to, ImU32 color, std::int32_t count) {
  const std::string text = format_count(count);
  const ImVec2 size = ImGui::CalcTextSize(text.c_str());
  if (to.x - from.x < size.x + widgets::em(0.4F) || to.y - from.y < size.y * 0.9F) return;
  draw->AddText({(from.x + to.x - size.x) / 2, (from.y + to.y - size.y) / 2},
                widgets::ink_on(color), text.c_str());
}

void kept_by_bar(DrawContext& context, const analysis::KvDifference& map, std::size_t chunk) {
  const std::int32_t kept = map.kept(chunk);
  if (kept == 0) return;
  const widgets::FontScope small(widgets::Type::Caption);
  double before = 0;
  for (const KeptBy what : {KeptBy::AOnly, KeptBy::Both, KeptBy::BOnly}) {
    const std::int32_t count = map.count(chunk, what);
    const double after = before + static_cast<double>(count) / kept;
    const ImVec2 from = ImPlot::PlotToPixels(before, static_cast<double>(chunk) + 0.12);
    const ImVec2 to = ImPlot::PlotToPixels(after, static_cast<double>(chunk) + 0.88);
    const ImU32 color = widgets::color_of(context.palette, what);
    ImPlot::GetPlotDrawList()->AddRectFilled(from, to, color);
    if (count > 0) count_in(ImPlot::GetPlotDrawList(), from, to, color, count);
    before = after;
  }
}

}  // namespace

void recall_bars_ui(DrawContext& context, const Map& map, const Recall& recall,
                    ImPlotRange& y_range, ImVec2 size, bool x_axis) {
  if (!begin_bars("##recall", replay::info_of(replay::Number::MassRecall).title, y_range, size,
                  x_axis))
    return;
  const auto [first, last] = chunks_in_view(y_range, map->map.chunks.size());
  // Of the same place and method: a stale recall of another would be a lie beside this map.
  const bool known = recall && !recall.stale && recall->size() == map->map.chunks.size();
  ImPlot::PushPlotClipRect();
  for (std::size_t chunk = first; chunk < last && known; ++chunk)
    recall_bar(context, map, chunk, (*recall)[chunk]);
  ImPlot::PopPlotClipRect();
  if (!known)
    ImPlot::PlotText(recall.state == state::ResultState::Error ? "not known" : "computing\u2026",
                     0.5, (y_range.Min + y_range.Max) / 2);
  ImPlot::EndPlot();
}

void kept_by_bars_ui(DrawContext& context, const Difference& result, ImPlotRange& y_range,
                     ImVec2 size) {
  if (!begin_bars("##kept by", "share of what either kept", y_range, size, true)) return;
  const auto [first, last] = chunks_in_view(y_range, result->map.chunks.size());
  ImPlot::PushPlotClipRect();
  for (std::size_t chunk = first; chunk < last; ++chunk) kept_by_bar(context, result->map, chunk);
  ImPlot::PopPlotClipRect();
  ImPlot::EndPlot();
}

}  // namespace kvloupe::panels
