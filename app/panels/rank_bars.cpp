#include "app/panels/rank_bars.h"

#include "app/panels/map_plot.h"
#include "app/state/labels.h"
#include "app/state/token_text.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace kvloupe::panels {
namespace {

using analysis::KeyRank;
using analysis::KeyVerdict;
using Span = std::optional<trace::TokenSpan>;

bool is_in(const Span& span, const KeyRank& key) {
  return span && key.position >= span->begin && key.position < span->end;
}
bool is_kept(const KeyRank& key) {
  return key.verdict == KeyVerdict::Hit || key.verdict == KeyVerdict::Waste;
}

void draw_bars(DrawContext& context, const RankedKeys& ranked, double bottom) {
  const Span span = state::watched_span(ranked.place);
  const std::vector<KeyRank>& keys = ranked.answer.cell.by_true_rank;
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const ImPlotRect limits = ImPlot::GetPlotLimits();
  const auto first = static_cast<std::int64_t>(std::max(0.0, std::floor(limits.X.Min) - 1));
  const auto last = std::min<std::int64_t>(static_cast<std::int64_t>(keys.size()),
                                           static_cast<std::int64_t>(limits.X.Max) + 1);
  const float base = ImPlot::PlotToPixels(0, bottom).y;
  for (std::int64_t i = first; i < last; ++i) {
    const KeyRank& key = keys[static_cast<std::size_t>(i)];
    const double share = std::max(ranked.answer.share_of(key), bottom);
    const ImVec2 from = ImPlot::PlotToPixels(static_cast<double>(i) + 0.6, share);
    const float right =
        std::max(ImPlot::PlotToPixels(static_cast<double>(i) + 1.4, share).x, from.x + 1);
    ImU32 color = widgets::color_of(context.palette, key.verdict);
    if (key.verdict == KeyVerdict::Neither) color = context.palette.line;
    draw->AddRectFilled(from, {right, base}, color);
    if (!is_in(span, key)) continue;
    const float middle = (from.x + right) / 2, tip = from.y - widgets::em(0.15F),
                half = widgets::em(0.3F);
    draw->AddTriangleFilled({middle - half, tip - half * 1.5F}, {middle + half, tip - half * 1.5F},
                            {middle, tip},
                            is_kept(key) ? context.palette.hit : context.palette.miss);
  }
}

// Of the watched keys those whose rank is beyond `last`.
void beyond_ui(DrawContext& context, const RankedKeys& ranked, double last) {
  const Span span = state::watched_span(ranked.place);
  const std::vector<KeyRank>& keys = ranked.answer.cell.by_true_rank;
  int beyond = 0, lost = 0;
  for (auto i = static_cast<std::size_t>(std::max(0.0, last)); i < keys.size(); ++i) {
    if (!is_in(span, keys[i])) continue;
    ++beyond;
    lost += is_kept(keys[i]) ? 0 : 1;
  }
  if (beyond == 0) return;
  const std::string text =
      fmt::format("{} of {} {} further right, {} not kept", beyond,
                  state::readable_name(span->name), beyond == 1 ? "stands" : "stand", lost);
  widgets::text_colored(lost > 0 ? context.palette.miss : context.palette.muted,
                        widgets::elided(text, ImGui::GetContentRegionAvail().x));
}

// As many true keys as the method kept: left of the line they should all be hits.
void cut_ui(DrawContext& context, std::int64_t kept) {
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const ImVec2 at = ImPlot::GetPlotPos(), size = ImPlot::GetPlotSize();
  const float cut =
      ImPlot::PlotToPixels(static_cast<double>(kept) + 0.5, ImPlot::GetPlotLimits().Y.Max).x;
  draw->AddLine({cut, at.y}, {cut, at.y + size.y}, context.palette.muted, 1.0F);
  const std::string text = fmt::format("{} kept", format_count(kept));
  const float width = ImGui::CalcTextSize(text.c_str()).x + widgets::em(0.4F);
  const bool fits = cut + width < at.x + size.x;
  draw->AddText({fits ? cut + widgets::em(0.4F) : cut - width, at.y + widgets::em(0.2F)},
                context.palette.muted, text.c_str());
}

void point_at(DrawContext& context, const RankedKeys& ranked) {
  const auto rank = static_cast<std::int64_t>(std::llround(ImPlot::GetPlotMousePos().x)) - 1;
  const analysis::SelectedVsTrue& cell = ranked.answer.cell;
  if (rank < 0 || rank >= static_cast<std::int64_t>(cell.by_true_rank.size())) return;
  const KeyRank& key = cell.by_true_rank[static_cast<std::size_t>(rank)];
  context.workspace.pointer.at(ranked.place, key.position);
  widgets::tooltip(
      "true rank %d of %lld\nkey %s\n%s of the past's mass (%.6g)\n%s", key.true_rank + 1,
      static_cast<long long>(cell.num_candidates), token_line(ranked.place, key.position).c_str(),
      share_text(ranked.answer.share_of(key)).c_str(), key.mass, state::label_of(key.verdict));
  if (plot_clicked() && !ranked.stale)
    context.workspace.cursor.set_keys(key.position, key.position + 1);
}

}  // namespace

void RankEnds::include(const state::SelectedVsTrueQuestion::Answer& answer) {
  const std::vector<KeyRank>& keys = answer.cell.by_true_rank;
  const double highest = keys.empty() ? 1 : std::max(1e-9, answer.share_of(keys.front()));
  top = std::max(top, highest);
  bottom = std::min(bottom, std::max(answer.least_share * 0.6, highest * 1e-6));
  ranks = std::max(ranks, static_cast<double>(keys.size()));
  shown = std::max(shown,
                   static_cast<double>(std::clamp<std::int64_t>(answer.kept() * 5 / 4, 24, 4000)));
}

double RankEnds::above() const { return top * std::max(1.6, std::pow(top / bottom, 0.15)); }

// Zoom is of the place; what nobody has zoomed follows the methods.
void RankBars::fit(const state::Place& place, const RankEnds& ends) {
  const ImPlotRange whole{0, std::min(ends.ranks, ends.shown) + 1};
  const bool zoomed = ranks_.Min != whole_.Min || ranks_.Max != whole_.Max;
  if (ranks_of_ == place.cell_key() && zoomed) return;
  ranks_of_ = place.cell_key();
  ranks_ = whole_ = whole;
}

void RankBars::draw(DrawContext& context, const RankedKeys& ranked, const RankEnds& ends,
                    const char* id, ImVec2 size) {
  constexpr ImPlotFlags kFlags = ImPlotFlags_NoTitle | ImPlotFlags_NoLegend | ImPlotFlags_NoMenus |
                                 ImPlotFlags_NoMouseText | ImPlotFlags_NoBoxSelect;
  fit(ranked.place, ends);
  const float top = ImGui::GetCursorPosY();
  beyond_ui(context, ranked, ranks_.Max);
  size.y = std::max(size.y - (ImGui::GetCursorPosY() - top),
                    context.figure ? context.least_plot : least_plot_height());
  bool all = false;
  const TickRoom room;
  if (!ImPlot::BeginPlot(id, size, kFlags)) return;
  ImPlot::SetupAxes("key, by true rank", fitting("share of mass", "share", size.y),
                    ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_NoHighlight,
                    ImPlotAxisFlags_NoHighlight | ImPlotAxisFlags_Lock);
  ImPlot::SetupAxisScale(ImAxis_Y1, ImPlotScale_Log10);
  ImPlot::SetupAxisLimits(ImAxis_Y1, ends.bottom, ends.above(), ImPlotCond_Always);
  ImPlot::SetupAxisLinks(ImAxis_X1, &ranks_.Min, &ranks_.Max);
  ImPlot::SetupAxisLimitsConstraints(ImAxis_X1, 0, ends.ranks + 1);
  ImPlot::SetupAxisFormat(ImAxis_X1, format_token_tick);
  ImPlot::SetupFinish();
  ImPlot::PushPlotClipRect();
  draw_bars(context, ranked, ends.bottom);
  cut_ui(context, ranked.answer.kept());
  ImPlot::PopPlotClipRect();
  if (ImPlot::IsPlotHovered() && !context.figure) {
    point_at(context, ranked);
    all = ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left);
  }
  ImPlot::EndPlot();  // writes the limits drawn into the linked range
  if (all) ranks_ = {0, ends.ranks + 1};
}

}  // namespace kvloupe::panels
