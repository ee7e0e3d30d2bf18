#include "app/panels/rank_bars.h"

#include "app/panels/map_plot.h"
#include "app/panels/show_control.h"
#include "app/state/labels.h"
#include "app/state/token_text.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::panels {
namespace {

using analysis::KeyRank;
using analysis::KeyVerdict;
using Span = std::optional<trace::TokenSpan>;

bool is_in(const Span& span, const KeyRank& key) {
  return span && key.position >= span->begin && key.position < span->end;
}

// The bars of the first method stand, those of a second one hang.
double side_of(std::size_t method) { return method == 0 ? 1 : -1; }

// Decades above the foot of the bars, downwards for a second method.
struct Decades {
  double bottom = 1, top = 1;  // shares

  double at(double share, std::size_t method) const {
    return side_of(method) * std::log10(std::max(share, bottom) / bottom);
  }
  double length() const { return std::log10(top / bottom); }
};

void draw_bars(DrawContext& context, const RankedKeys& ranked, std::size_t method,
               const Decades& decades) {
  const Span span = state::watched_span(ranked.place);
  const std::vector<KeyRank>& keys = ranked.answer.cell.by_true_rank;
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const ImPlotRect limits = ImPlot::GetPlotLimits();
  const auto first = static_cast<std::int64_t>(std::max(0.0, std::floor(limits.X.Min) - 1));
  const auto last = std::min<std::int64_t>(static_cast<std::int64_t>(keys.size()),
                                           static_cast<std::int64_t>(limits.X.Max) + 1);
  const float foot = ImPlot::PlotToPixels(0, 0).y;
  const auto out = static_cast<float>(-side_of(method));  // of the screen, whose y grows downwards
  for (std::int64_t i = first; i < last; ++i) {
    const KeyRank& key = keys[static_cast<std::size_t>(i)];
    const double end = decades.at(ranked.answer.share_of(key), method);
    const ImVec2 from = ImPlot::PlotToPixels(static_cast<double>(i) + 0.6, end);
    const float right =
        std::max(ImPlot::PlotToPixels(static_cast<double>(i) + 1.4, end).x, from.x + 1);
    ImU32 color = widgets::color_of(context.palette, key.verdict);
    if (key.verdict == KeyVerdict::Neither) color = context.palette.line;
    draw->AddRectFilled({from.x, std::min(from.y, foot)}, {right, std::max(from.y, foot)}, color);
    if (!is_in(span, key)) continue;
    const float middle = (from.x + right) / 2, tip = from.y + out * widgets::em(0.15F),
                half = widgets::em(0.3F);
    draw->AddTriangleFilled(
        {middle - half, tip + out * half * 1.5F}, {middle + half, tip + out * half * 1.5F},
        {middle, tip}, analysis::is_kept(key.verdict) ? context.palette.hit : context.palette.miss);
  }
}

// The ranks that the plot does not show.
struct Beyond {
  std::int64_t watched = 0, lost = 0, wastes = 0;
};

Beyond beyond(const RankedKeys& ranked, double last) {
  const Span span = state::watched_span(ranked.place);
  const std::vector<KeyRank>& keys = ranked.answer.cell.by_true_rank;
  Beyond sums;
  for (auto i = static_cast<std::size_t>(std::max(0.0, last)); i < keys.size(); ++i) {
    sums.wastes += keys[i].verdict == KeyVerdict::Waste ? 1 : 0;
    if (!is_in(span, keys[i])) continue;
    ++sums.watched;
    sums.lost += analysis::is_kept(keys[i].verdict) ? 0 : 1;
  }
  return sums;
}

// "right of the plot: 70 of 87 wastes; 13 keys of needle, 9 lost"
void beyond_ui(DrawContext& context, const std::vector<RankedKeys>& methods, double last) {
  std::int64_t watched = 0, lost_by_any = 0, all_wastes = 0;
  std::string lost, wastes;
  for (std::size_t m = 0; m < methods.size(); ++m) {
    const Beyond one = beyond(methods[m], last);
    const std::string name =
        methods.size() == 1 ? "" : fmt::format("{}{} ", m == 0 ? "" : ", ", letter_of_method(m));
    wastes += fmt::format("{}{} of {}", name, format_count(one.wastes),
                          format_count(methods[m].answer.cell.wastes));
    lost += fmt::format("{}{} lost", name, one.lost);
    watched = std::max(watched, one.watched);
    lost_by_any += one.lost;
    all_wastes += one.wastes;
  }
  if (watched + all_wastes == 0) return;
  std::string text = "right of the plot:";
  if (all_wastes > 0) text += fmt::format(" {} wastes", wastes);
  if (watched > 0)
    text +=
        fmt::format("{} {} of {}, {}", all_wastes > 0 ? ";" : "",
                    watched == 1 ? "1 key" : fmt::format("{} keys", watched),
                    state::readable_name(state::watched_span(methods.front().place)->name), lost);
  widgets::text_wrapped(lost_by_any > 0 ? context.palette.miss : context.palette.muted, text);
}

// As many true keys as the method kept: left of the line they should all be hits.
void cut_ui(DrawContext& context, std::int64_t kept, std::size_t method, std::size_t methods) {
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const ImVec2 at = ImPlot::GetPlotPos(), size = ImPlot::GetPlotSize();
  const ImVec2 foot = ImPlot::PlotToPixels(static_cast<double>(kept) + 0.5, 0);
  const float end = method == 0 ? at.y : at.y + size.y;
  draw->AddLine({foot.x, end}, foot, context.palette.muted, 1.0F);
  const std::string text = fmt::format("{} kept", format_count(kept));
  const ImVec2 words = ImGui::CalcTextSize(text.c_str());
  const float gap = widgets::em(0.4F);
  const float y = method == 0 ? at.y + gap / 2 : end - gap / 2 - words.y;
  const bool left = methods > 1 || foot.x + gap + words.x > at.x + size.x;
  draw->AddText({left ? foot.x - gap - words.x : foot.x + gap, y}, context.palette.muted,
                text.c_str());
  if (methods == 1) return;
  const widgets::FontScope strong(widgets::Type::Strong);
  const std::string letter = letter_of_method(method);
  draw->AddText({at.x + size.x - ImGui::CalcTextSize(letter.c_str()).x - gap, y},
                widgets::color_of_slot(context.palette, state::kSlots[method]), letter.c_str());
}

void point_at(DrawContext& context, const std::vector<RankedKeys>& methods) {
  const ImPlotPoint mouse = ImPlot::GetPlotMousePos();
  const auto rank = static_cast<std::int64_t>(std::llround(mouse.x)) - 1;
  const RankedKeys& ranked = methods[methods.size() > 1 && mouse.y < 0 ? 1 : 0];
  const analysis::SelectedVsTrue& cell = ranked.answer.cell;
  if (rank < 0 || rank >= static_cast<std::int64_t>(cell.by_true_rank.size())) return;
  const KeyRank& key = cell.by_true_rank[static_cast<std::size_t>(rank)];
  context.workspace.pointer.at(ranked.place, key.position);
  std::string fates;
  for (std::size_t m = 0; m < methods.size(); ++m) {
    const auto& keys = methods[m].answer.cell.by_true_rank;
    if (rank >= static_cast<std::int64_t>(keys.size())) continue;
    if (m > 0) fates += ", ";
    if (methods.size() > 1) fates += letter_of_method(m) + " ";
    fates += state::label_of(keys[static_cast<std::size_t>(rank)].verdict);
  }
  widgets::tooltip("true rank %d of %lld\nkey %s\n%s of the past's mass (%.6g)\n%s",
                   key.true_rank + 1, static_cast<long long>(cell.num_candidates),
                   token_line(ranked.place, key.position).c_str(),
                   share_text(ranked.answer.share_of(key)).c_str(), key.mass, fates.c_str());
  if (plot_clicked() && !ranked.stale)
    context.workspace.cursor.set_keys(key.position, key.position + 1);
}

// A tick for each decade, or for as many as have room.
void decade_ticks(const Decades& decades, std::size_t methods, float height) {
  const double first = std::ceil(std::log10(decades.bottom) - 1e-9),
               last = std::floor(std::log10(decades.top) + 1e-9);
  const double pixels = height / (decades.length() * static_cast<double>(methods));
  const double step = std::max(1.0, std::ceil(1.5 * ImGui::GetTextLineHeight() / pixels));
  std::vector<double> at;
  std::vector<std::string> names;
  for (std::size_t m = 0; m < methods; ++m)
    for (double power = last; power >= first; power -= step) {
      const double share = std::pow(10, power);
      const double value = decades.at(share, m);
      // The first ticks of both sides would lie on each other.
      if (methods > 1 && std::abs(value) * pixels < 0.75 * ImGui::GetTextLineHeight()) continue;
      at.push_back(value);
      names.push_back(fmt::format("{:g} %", 100 * share));
    }
  std::vector<const char*> words;
  for (const std::string& name : names) words.push_back(name.c_str());
  ImPlot::SetupAxisTicks(ImAxis_Y1, at.data(), static_cast<int>(at.size()), words.data());
}

}  // namespace

void RankEnds::include(const state::SelectedVsTrueQuestion::Answer& answer) {
  const std::vector<KeyRank>& keys = answer.cell.by_true_rank;
  top_ = std::max(top_, keys.empty() ? 1 : std::max(1e-9, answer.share_of(keys.front())));
  ranks = std::max(ranks, static_cast<double>(keys.size()));
  shown = std::max(shown,
                   static_cast<double>(std::clamp<std::int64_t>(answer.kept() * 5 / 4, 24, 4000)));
  answers_.push_back(&answer);
}

double RankEnds::bottom(double last) const {
  double least = top_;
  for (const auto* answer : answers_) {
    const std::vector<KeyRank>& keys = answer->cell.by_true_rank;
    if (keys.empty()) continue;
    const auto end =
        static_cast<std::size_t>(std::clamp<double>(last, 1, static_cast<double>(keys.size())));
    const double share = answer->share_of(keys[end - 1]);
    least = std::min(least, share > 0 ? share : answer->least_share);
  }
  constexpr double kMost = 1e-6;  // of the highest bar: no key below it is worth looking at
  return std::max(0.6 * least, kMost * top_);
}

double RankEnds::above(double bottom) const {
  return top_ * std::max(1.6, std::pow(top_ / bottom, 0.15));
}

// Zoom is of the place; what nobody has zoomed follows the methods.
void RankBars::fit(const state::Place& place, const RankEnds& ends) {
  const ImPlotRange whole{0, std::min(ends.ranks, ends.shown) + 1};
  const bool zoomed = ranks_.Min != whole_.Min || ranks_.Max != whole_.Max;
  if (ranks_of_ == place.cell_key() && zoomed) return;
  ranks_of_ = place.cell_key();
  ranks_ = whole_ = whole;
}

void RankBars::draw(DrawContext& context, const std::vector<RankedKeys>& methods,
                    const RankEnds& ends, const char* id, ImVec2 size) {
  constexpr ImPlotFlags kFlags = ImPlotFlags_NoTitle | ImPlotFlags_NoLegend | ImPlotFlags_NoMenus |
                                 ImPlotFlags_NoMouseText | ImPlotFlags_NoBoxSelect;
  fit(methods.front().place, ends);
  const float top = ImGui::GetCursorPosY();
  beyond_ui(context, methods, ranks_.Max);
  size.y = std::max(size.y - (ImGui::GetCursorPosY() - top),
                    context.figure ? context.least_plot : least_plot_height());
  const double bottom = ends.bottom(std::max(ends.shown, ranks_.Max));
  const Decades decades{bottom, ends.above(bottom)};
  bool all = false;
  const TickRoom room;
  if (!ImPlot::BeginPlot(id, size, kFlags)) return;
  ImPlot::SetupAxes("key, by true rank", fitting("share of mass", "share", size.y),
                    ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_NoHighlight,
                    ImPlotAxisFlags_NoHighlight | ImPlotAxisFlags_Lock);
  const double length = decades.length();
  ImPlot::SetupAxisLimits(ImAxis_Y1, methods.size() > 1 ? -length : 0, length, ImPlotCond_Always);
  decade_ticks(decades, methods.size(), size.y - widgets::em(3.5F));  // axis and its name below
  ImPlot::SetupAxisLinks(ImAxis_X1, &ranks_.Min, &ranks_.Max);
  ImPlot::SetupAxisLimitsConstraints(ImAxis_X1, 0, ends.ranks + 1);
  ImPlot::SetupAxisFormat(ImAxis_X1, format_token_tick);
  ImPlot::SetupFinish();
  ImPlot::PushPlotClipRect();
  for (std::size_t m = 0; m < methods.size(); ++m) draw_bars(context, methods[m], m, decades);
  for (std::size_t m = 0; m < methods.size(); ++m)
    cut_ui(context, methods[m].answer.kept(), m, methods.size());
  ImPlot::PopPlotClipRect();
  if (ImPlot::IsPlotHovered() && !context.figure) {
    point_at(context, methods);
    all = ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left);
  }
  ImPlot::EndPlot();  // writes the limits drawn into the linked range
  if (all) ranks_ = {0, ends.ranks + 1};
}

}  // namespace kvloupe::panels
