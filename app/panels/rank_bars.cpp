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
using Span = std::optional<trace::NamedKeys>;

bool is_in(const Span& span, const KeyRank& key) {
  return span && span->keys.contains(key.position);
}

// Decades above the foot of the bars.
struct Decades {
  double bottom = 1, top = 1;  // shares

  double at(double share) const { return std::log10(std::max(share, bottom) / bottom); }
  double length() const { return std::log10(top / bottom); }
};

// Of two methods the bars tell the mass alone, and a lane below them for each what it kept, with the marks
// of the watched keys on its outer side. In pixels below the foot of the bars.
struct Lanes {
  std::size_t methods = 1;
  float plot = 0;  // height of the plot

  bool any() const { return methods > 1; }
  static float mark() { return widgets::em(0.65F); }
  float height() const {
    return std::clamp((plot - widgets::em(5)) * 0.2F, widgets::em(0.9F), widgets::em(2.2F));
  }
  float room() const { return any() ? 2 * mark() + 2 * height() + 3 * gap() : 0; }
  float top(std::size_t method) const {
    return mark() + gap() + static_cast<float>(method) * (height() + gap());
  }

 private:
  static float gap() { return widgets::em(0.2F); }
};

// Half-open; with those that the edges of the plot cut.
struct Ranks {
  std::size_t first = 0, last = 0;
};
Ranks ranks_in_view(std::size_t keys) {
  const ImPlotRect limits = ImPlot::GetPlotLimits();
  const auto at = [&](double x) {
    return static_cast<std::size_t>(std::clamp(x, 0.0, static_cast<double>(keys)));
  };
  return {at(std::floor(limits.X.Min) - 1), at(limits.X.Max + 1)};
}

// The left and right edge of a key, at least a pixel apart.
ImVec2 edges_of(std::size_t rank) {
  const float left = ImPlot::PlotToPixels(static_cast<double>(rank) + 0.6, 0).x;
  return {left, std::max(ImPlot::PlotToPixels(static_cast<double>(rank) + 1.4, 0).x, left + 1)};
}

// A triangle that points to `tip`, from below where `up`.
void mark_ui(DrawContext& context, const KeyRank& key, float x, float tip, bool up) {
  const float half = widgets::em(0.3F), base = tip + (up ? half * 1.5F : -half * 1.5F);
  ImPlot::GetPlotDrawList()->AddTriangleFilled(
      {x - half, base}, {x + half, base}, {x, tip},
      key.verdict == KeyVerdict::Neither ? context.palette.muted
                                         : widgets::color_of(context.palette, key.verdict));
}

void draw_bars(DrawContext& context, const RankedKeys& ranked, const Decades& decades,
               const Lanes& lanes) {
  const Span span = state::watched_keys(ranked.place);
  const std::vector<KeyRank>& keys = ranked.answer.cell.by_true_rank;
  const float foot = ImPlot::PlotToPixels(0, 0).y;
  const Ranks ranks = ranks_in_view(keys.size());
  for (std::size_t i = ranks.first; i < ranks.last; ++i) {
    const KeyRank& key = keys[i];
    const float top = ImPlot::PlotToPixels(0, decades.at(ranked.answer.share_of(key))).y;
    const ImVec2 x = edges_of(i);
    ImU32 color = widgets::color_of(context.palette, key.verdict);
    if (lanes.any())
      color = widgets::with_alpha(context.palette.current, 0.6F);
    else if (key.verdict == KeyVerdict::Neither)
      color = context.palette.line;
    ImPlot::GetPlotDrawList()->AddRectFilled({x.x, top}, {x.y, foot}, color);
    if (!lanes.any() && is_in(span, key))
      mark_ui(context, key, (x.x + x.y) / 2, top - widgets::em(0.15F), false);
  }
}

void draw_lane(DrawContext& context, const RankedKeys& ranked, std::size_t method,
               const Lanes& lanes) {
  const Span span = state::watched_keys(ranked.place);
  const std::vector<KeyRank>& keys = ranked.answer.cell.by_true_rank;
  const float top = ImPlot::PlotToPixels(0, 0).y + lanes.top(method);
  const float bottom = top + lanes.height(), gap = widgets::em(0.1F);
  const Ranks ranks = ranks_in_view(keys.size());
  for (std::size_t i = ranks.first; i < ranks.last; ++i) {
    const KeyRank& key = keys[i];
    const ImVec2 x = edges_of(i);
    if (key.verdict != KeyVerdict::Neither)
      ImPlot::GetPlotDrawList()->AddRectFilled({x.x, top}, {x.y, bottom},
                                               widgets::color_of(context.palette, key.verdict));
    if (is_in(span, key))
      mark_ui(context, key, (x.x + x.y) / 2, method == 0 ? top - gap : bottom + gap, method != 0);
  }
}

// The ranks that the plot does not show.
struct Beyond {
  std::int64_t watched = 0, lost = 0, wastes = 0;
};

Beyond beyond(const RankedKeys& ranked, double last) {
  const Span span = state::watched_keys(ranked.place);
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

// "Not drawn, past rank 320: 70 of 87 wasted keys; 13 keys of needle, 9 not kept"
void beyond_ui(DrawContext& context, const std::vector<RankedKeys>& methods, double last) {
  std::int64_t watched = 0, all_wastes = 0;
  std::string lost, wastes;
  for (std::size_t m = 0; m < methods.size(); ++m) {
    const Beyond one = beyond(methods[m], last);
    const std::string name =
        methods.size() == 1 ? "" : fmt::format("{}{} ", m == 0 ? "" : ", ", letter_of_method(m));
    wastes += name + format_count(one.wastes);
    if (methods.size() == 1)
      wastes += fmt::format(" of {}", format_count(methods[m].answer.cell.wastes));
    lost += fmt::format("{}{}", name, format_count(one.lost));
    watched = std::max(watched, one.watched);
    all_wastes += one.wastes;
  }
  if (watched + all_wastes == 0) return;
  std::string text = fmt::format("Not drawn, past rank {}:", format_count(std::llround(last)));
  if (all_wastes > 0) text += fmt::format(" {} wasted keys", wastes);
  if (watched > 0)
    text +=
        fmt::format("{} {} {} of {}, {} not kept", all_wastes > 0 ? ";" : "", watched,
                    watched == 1 ? "key" : "keys",
                    state::readable_name(state::watched_keys(methods.front().place)->name), lost);
  const widgets::FontScope small(widgets::Type::Caption);
  widgets::text_wrapped(context.palette.muted, text);
}

// As many true keys as a method kept, through the bars and its lane: left of the line all should be hits.
void cut_ui(DrawContext& context, const std::vector<RankedKeys>& methods, const Lanes& lanes) {
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const ImVec2 at = ImPlot::GetPlotPos(), size = ImPlot::GetPlotSize();
  const float foot = ImPlot::PlotToPixels(0, 0).y, gap = widgets::em(0.4F);
  const bool differ = methods.back().answer.kept() != methods.front().answer.kept();
  float y = at.y + gap / 2;
  for (std::size_t m = 0; m < methods.size(); ++m) {
    const std::int64_t kept = methods[m].answer.kept();
    const float x = ImPlot::PlotToPixels(static_cast<double>(kept) + 0.5, 0).x;
    draw->AddLine({x, at.y}, {x, foot}, context.palette.muted, 1.0F);
    if (lanes.any())
      draw->AddLine({x, foot + lanes.top(m)}, {x, foot + lanes.top(m) + lanes.height()},
                    context.palette.text, 1.0F);
    if (m > 0 && !differ) continue;
    const std::string text =
        fmt::format("{}true top {}", differ ? letter_of_method(m) + ": " : "", format_count(kept));
    const float width = ImGui::CalcTextSize(text.c_str()).x;
    const bool left = x + gap + width > at.x + size.x;
    draw->AddText({left ? x - gap - width : x + gap, y}, context.palette.muted, text.c_str());
    y += ImGui::GetTextLineHeight();
  }
}

void point_at(DrawContext& context, const std::vector<RankedKeys>& methods) {
  const ImPlotPoint mouse = ImPlot::GetPlotMousePos();
  const auto rank = static_cast<std::int64_t>(std::llround(mouse.x)) - 1;
  const RankedKeys& ranked = methods.front();
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
  widgets::tooltip("true rank %d of %lld\nkey %s\n%s of the past's mass (M %.6g)\n%s",
                   key.true_rank + 1, static_cast<long long>(cell.num_candidates),
                   token_line(ranked.place, key.position).c_str(),
                   share_text(ranked.answer.share_of(key)).c_str(), key.mass, fates.c_str());
  if (plot_clicked() && !ranked.stale)
    context.workspace.cursor.set_keys(key.position, key.position + 1);
}

// A tick for each decade, or for as many as have room; the lanes have the letters of their methods.
void axis_ticks(const Decades& decades, const Lanes& lanes, double units_per_pixel) {
  const double first = std::ceil(std::log10(decades.bottom) - 1e-9),
               last = std::floor(std::log10(decades.top) + 1e-9);
  const double step =
      std::max(1.0, std::ceil(1.5 * double{ImGui::GetTextLineHeight()} * units_per_pixel));
  std::vector<double> at;
  std::vector<std::string> names;
  for (double power = last; power >= first; power -= step) {
    const double share = std::pow(10, power);
    at.push_back(decades.at(share));
    names.push_back(state::share_tick_text(share));
  }
  for (std::size_t m = 0; lanes.any() && m < lanes.methods; ++m) {
    at.push_back(-units_per_pixel * double{lanes.top(m) + lanes.height() / 2});
    names.push_back(letter_of_method(m));
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
  const Lanes lanes{methods.size(), size.y};
  // Without the axis and its name below.
  const double height = std::max(double{size.y - widgets::em(3.5F) - lanes.room()}, 1.0);
  const double units_per_pixel = decades.length() / height;
  bool all = false;
  const TickRoom room;
  if (!ImPlot::BeginPlot(id, size, kFlags)) return;
  ImPlot::SetupAxes("key, by true rank",
                    fitting("share of mass", "share", static_cast<float>(height)),
                    ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_NoHighlight,
                    ImPlotAxisFlags_NoHighlight | ImPlotAxisFlags_Lock);
  ImPlot::SetupAxisLimits(ImAxis_Y1, -units_per_pixel * double{lanes.room()}, decades.length(),
                          ImPlotCond_Always);
  axis_ticks(decades, lanes, units_per_pixel);
  ImPlot::SetupAxisLinks(ImAxis_X1, &ranks_.Min, &ranks_.Max);
  ImPlot::SetupAxisLimitsConstraints(ImAxis_X1, 0, ends.ranks + 1);
  ImPlot::SetupAxisFormat(ImAxis_X1, format_token_tick);
  ImPlot::SetupFinish();
  ImPlot::PushPlotClipRect();
  draw_bars(context, methods.front(), decades, lanes);
  for (std::size_t m = 0; lanes.any() && m < methods.size(); ++m)
    draw_lane(context, methods[m], m, lanes);
  cut_ui(context, methods, lanes);
  ImPlot::PopPlotClipRect();
  if (ImPlot::IsPlotHovered() && !context.figure) {
    point_at(context, methods);
    all = ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left);
  }
  ImPlot::EndPlot();  // writes the limits drawn into the linked range
  if (all) ranks_ = {0, ends.ranks + 1};
}

}  // namespace kvloupe::panels
