// One key through the chunks: what it is worth, what it scored against the cut, and what became of it.
#include "app/panels/key_inspection.h"
#include "app/panels/map_plot.h"
#include "app/state/labels.h"
#include "app/state/questions/why_lost/explain_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace kvloupe::panels {
namespace {

using replay::KeyLife;
using state::MissQuestion;
using Life = state::Result<state::KeyLifeQuestion>;
using State = KeyLife::State;

// Ends of the axes. The lowest seventh of the plot is the band of states.
struct Extent {
  double top = 1e-4;         // share of mass
  double low = 0, high = 0;  // of scores and cuts
  bool has_scores = false;
  static constexpr double kBand = 0.17;  // of the share axis, below 0

  Extent(const KeyLife& life, const MissQuestion::Answer* span) {
    if (span != nullptr) top = std::max(top, span->top_mass);
    for (const KeyLife::Chunk& chunk : life.chunks) {
      top = std::max(top, chunk.share);
      for (const auto& value : {chunk.score, chunk.cut}) {
        if (!value || !std::isfinite(*value)) continue;
        low = has_scores ? std::min(low, *value) : *value;
        high = has_scores ? std::max(high, *value) : *value;
        has_scores = true;
      }
    }
    top *= 1.25;
    const double room = std::max(high - low, std::max(1e-6, std::abs(high) * 0.05));
    high += room * 0.25;
    low -= room * (0.1 + 1.35 * kBand);
  }
};

int share_tick(double value, char* buffer, int size, void* /*data*/) {
  if (value < -1e-9 || value > 1.001)
    return std::snprintf(buffer, static_cast<std::size_t>(size), "%s", "");
  return std::snprintf(buffer, static_cast<std::size_t>(size), "%s",
                       state::share_tick_text(value).c_str());
}

int score_tick(double value, char* buffer, int size, void* data) {
  if (value < *static_cast<const double*>(data))  // beside the band
    return std::snprintf(buffer, static_cast<std::size_t>(size), "%s", "");
  return std::snprintf(buffer, static_cast<std::size_t>(size), "%.4g", value);
}

// The share of the whole span, in light, with how much of it was kept.
void span_bar_ui(DrawContext& context, const MissQuestion::Bar& bar) {
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const ImVec2 from = ImPlot::PlotToPixels(bar.first - 0.4, bar.span_mass);
  const ImVec2 to = ImPlot::PlotToPixels(bar.last - 0.6, 0);
  const ImVec2 top(from.x, std::min(from.y, to.y - 1));
  const double share = static_cast<double>(bar.kept) / static_cast<double>(bar.total);
  const ImU32 color = widgets::share_color(context.palette, share);
  draw->AddRectFilled(top, to, widgets::with_alpha(color, 0.28F), 2);
  if (to.x - from.x > widgets::em(0.5F))
    draw->AddRect(top, to, widgets::with_alpha(context.palette.faint, 0.7F), 2);
}

// "7/22" over the bar, on top of the lines.
void span_label_ui(DrawContext& context, const MissQuestion::Bar& bar) {
  if (bar.last > bar.first + 1) return;
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const ImVec2 from = ImPlot::PlotToPixels(bar.first - 0.4, bar.span_mass);
  const ImVec2 to = ImPlot::PlotToPixels(bar.last - 0.6, 0);
  const widgets::FontScope small(widgets::Type::Caption);
  const std::string text = fmt::format("{}/{}", bar.kept, bar.total);
  const ImVec2 size = ImGui::CalcTextSize(text.c_str());
  if (size.x >= to.x - from.x) return;
  const ImVec2 at((from.x + to.x - size.x) / 2, std::min(from.y, to.y - 1) - size.y - 1);
  draw->AddRectFilled({at.x - 1, at.y}, {at.x + size.x + 1, at.y + size.y},
                      widgets::with_alpha(context.palette.panel, 0.75F), 2);
  draw->AddText(at, context.palette.text, text.c_str());
}

void key_bars_ui(DrawContext& context, const KeyLife& life) {
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  for (std::size_t c = 0; c < life.chunks.size(); ++c) {
    const KeyLife::Chunk& chunk = life.chunks[c];
    if (chunk.share <= 0) continue;
    const auto at = static_cast<double>(c);
    const ImVec2 from = ImPlot::PlotToPixels(at - 0.27, chunk.share);
    const ImVec2 to = ImPlot::PlotToPixels(at + 0.27, 0);
    widgets::key_rect(draw, context.palette, {from.x, std::min(from.y, to.y - 1)},
                      {std::max(to.x, from.x + 1), to.y},
                      color_of_life(context.palette, chunk.state, chunk.dense), 2);
  }
}

// Chunks of one fate in a row are one rectangle.
void band_ui(DrawContext& context, const KeyLife& life, double height) {
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const auto look = [&](std::size_t c) {
    return color_of_life(context.palette, life.chunks[c].state, life.chunks[c].dense);
  };
  for (std::size_t first = 0; first < life.chunks.size();) {
    std::size_t last = first + 1;
    while (last < life.chunks.size() && look(last) == look(first)) ++last;
    const ImVec2 from = ImPlot::PlotToPixels(static_cast<double>(first) - 0.5, -0.25 * height);
    const ImVec2 to = ImPlot::PlotToPixels(static_cast<double>(last) - 0.5, -0.9 * height);
    widgets::key_rect(draw, context.palette, {from.x + 1, from.y},
                      {std::max(to.x - 1, from.x + 2), to.y}, look(first), 3);
    draw->AddRect({from.x + 1, from.y}, {std::max(to.x - 1, from.x + 2), to.y},
                  widgets::with_alpha(context.palette.faint, 0.5F), 3);
    first = last;
  }
}

// Against the second axis; broken where nothing was scored. A point that has no neighbour is a dot.
void line_ui(const KeyLife& life, std::optional<double> KeyLife::Chunk::*value, ImU32 color,
             float weight, bool dots) {
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  std::optional<ImVec2> before;
  bool joined = false;
  const bool few = life.chunks.size() <= 200;
  for (std::size_t c = 0; c < life.chunks.size(); ++c) {
    const std::optional<double>& here = life.chunks[c].*value;
    if (!here || !std::isfinite(*here)) {
      if (before && !joined) draw->AddCircleFilled(*before, weight * 1.2F, color);
      before.reset();
      joined = false;
      continue;
    }
    const ImVec2 at = ImPlot::PlotToPixels(static_cast<double>(c), *here, ImAxis_X1, ImAxis_Y2);
    if (before) draw->AddLine(*before, at, color, weight);
    if (dots && few) draw->AddCircleFilled(at, weight * 1.5F, color);
    joined = before.has_value();
    before = at;
  }
  if (before && !joined) draw->AddCircleFilled(*before, weight * 1.2F, color);
}

void legend_ui(DrawContext& context, const KeyLife& life, const Extent& extent) {
  std::set<std::pair<State, bool>> seen;
  for (const KeyLife::Chunk& chunk : life.chunks)
    seen.insert({chunk.state, chunk.dense && chunk.state == State::Kept});
  std::vector<widgets::LegendItem> items;
  for (const auto& [state, dense] : seen)
    items.push_back({dense ? "dense" : state::words_of(state, false),
                     color_of_life(context.palette, state, dense)});
  if (extent.has_scores) {
    items.push_back({"score", context.palette.text, widgets::LegendItem::Shape::Line});
    items.push_back({"cut", context.palette.warning, widgets::LegendItem::Shape::Line});
  }
  widgets::legend_ui(context.palette, items);
}

void tooltip(const Life& life, const state::Result<MissQuestion>& span, std::size_t chunk) {
  const KeyLife::Chunk& here = life->chunks[chunk];
  std::string text =
      fmt::format("{}\n{}{}", chunk_name(life.question.place.info(), static_cast<int>(chunk)),
                  state::words_of(here.state, here.dense), here.forced ? ", by rule" : "");
  if (here.state != State::Unborn && here.state != State::Own && here.state != State::Hidden &&
      here.state != State::Unknown)
    text += fmt::format("\n{:.4f} % of the mass", 100 * here.share);
  if (here.score) text += fmt::format("\nscore {:.5g}", *here.score);
  if (here.cut) text += fmt::format("\ncut {:.5g}", *here.cut);
  if (span && chunk < span->chunks.size() && span->chunks[chunk].total > 1)
    text += fmt::format("\nspan: {} of {} kept, {:.4f} % of the mass", span->chunks[chunk].kept,
                        span->chunks[chunk].total, 100 * span->chunks[chunk].span_mass);
  widgets::tooltip("%s", text.c_str());
}

void setup_axes(const Life& life, const std::string& axis, Extent& extent, double* score_floor) {
  // The heading has said already what a plain axis counts.
  ImPlot::SetupAxes(
      axis == "chunk" ? nullptr : axis.c_str(), "mass",
      ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_NoTickMarks | ImPlotAxisFlags_Lock,
      ImPlotAxisFlags_Lock);
  ImPlot::SetupAxisLimits(ImAxis_X1, -0.5, static_cast<double>(life->chunks.size()) - 0.5,
                          ImPlotCond_Always);
  ImPlot::SetupAxisLimits(ImAxis_Y1, -Extent::kBand * extent.top, extent.top, ImPlotCond_Always);
  ImPlot::SetupAxisFormat(ImAxis_X1, format_token_tick);
  ImPlot::SetupAxisFormat(ImAxis_Y1, share_tick);
  if (extent.has_scores) {
    *score_floor = extent.low + (extent.high - extent.low) * Extent::kBand / (1 + Extent::kBand);
    ImPlot::SetupAxis(ImAxis_Y2, "score", ImPlotAxisFlags_AuxDefault | ImPlotAxisFlags_Lock);
    ImPlot::SetupAxisLimits(ImAxis_Y2, extent.low, extent.high, ImPlotCond_Always);
    ImPlot::SetupAxisFormat(ImAxis_Y2, score_tick, score_floor);
  }
  ImPlot::SetupFinish();
}

}  // namespace

ImU32 color_of_life(const widgets::Palette& palette, State state, bool dense) {
  switch (state) {
    case State::Kept: return dense ? palette.dense : palette.hit;
    case State::Lost: return palette.miss;
    case State::Evicted: return palette.evicted;
    case State::Own: return palette.current;
    case State::Hidden: return palette.hidden;
    case State::Unborn:
    case State::Unknown: return palette.future;
  }
  return palette.future;
}

void key_life_ui(DrawContext& context, const KeyUnderMethod& key, float height) {
  const Life& life = key.life;
  if (!life) {
    widgets::text_wrapped(
        life.state == state::ResultState::Error ? context.palette.error : context.palette.muted,
        life.state == state::ResultState::Loading ? "Following the key through the chunks\u2026"
                                                  : problem_of(life));
    return;
  }
  if (life.stale) widgets::stale_ui(context.palette);
  const state::Place& place = life.question.place;
  const auto span = state::watched_keys(key.span.question.place);
  const bool of_span = key.span && span && span->keys.size() > 1;
  Extent extent(*life, of_span ? key.span.answer.get() : nullptr);
  const float from = ImGui::GetCursorPosY();
  heading_ui(context, "Through the chunks",
             of_span ? "share of true mass: the span in light, the key in full"
                     : "share of true mass, score and cut");
  legend_ui(context, *life, extent);
  height -= ImGui::GetCursorPosY() - from;
  const bool is_a = key.slot == state::Slot::A;
  if (!ImPlot::BeginPlot(is_a ? "##life a" : "##life b",
                         {-1, plot_height(context, std::max(height, widgets::em(6)))},
                         ImPlotFlags_CanvasOnly))
    return;
  double score_floor = 0;
  setup_axes(life, key.span ? key.span->axis : "chunk", extent, &score_floor);
  ImPlot::PushPlotClipRect();
  const double band = Extent::kBand * extent.top;
  const int here = place.chunk;
  ImPlot::GetPlotDrawList()->AddRectFilled(ImPlot::PlotToPixels(here - 0.5, extent.top),
                                           ImPlot::PlotToPixels(here + 0.5, -band),
                                           widgets::with_alpha(context.palette.accent, 0.12F));
  if (of_span)
    for (const MissQuestion::Bar& bar : key.span->bars) span_bar_ui(context, bar);
  key_bars_ui(context, *life);
  band_ui(context, *life, band);
  if (extent.has_scores) {
    // A rim of the plot's own colour, so that they stand out from bars of any colour.
    for (const auto& value : {&KeyLife::Chunk::cut, &KeyLife::Chunk::score})
      line_ui(*life, value, context.palette.panel, widgets::em(0.32F), false);
    line_ui(*life, &KeyLife::Chunk::cut, context.palette.warning, widgets::em(0.15F), false);
    line_ui(*life, &KeyLife::Chunk::score, context.palette.text, widgets::em(0.13F), true);
  }
  if (of_span)
    for (const MissQuestion::Bar& bar : key.span->bars) span_label_ui(context, bar);
  ImPlot::PopPlotClipRect();
  if (ImPlot::IsPlotHovered() && !context.figure) {
    const auto chunk = static_cast<std::int64_t>(std::floor(ImPlot::GetPlotMousePos().x + 0.5));
    if (chunk >= 0 && chunk < static_cast<std::int64_t>(life->chunks.size())) {
      tooltip(life, key.span, static_cast<std::size_t>(chunk));
      if (plot_clicked() && !life.stale)
        context.workspace.cursor.set_chunk(static_cast<int>(chunk));
    }
  }
  ImPlot::EndPlot();
}

}  // namespace kvloupe::panels
