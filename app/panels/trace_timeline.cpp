#include "app/panels/trace_timeline.h"

#include "app/state/token_text.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::panels {
namespace {

constexpr std::size_t kMostSpans = 40;  // a hostile file may have any number

float row_height() { return widgets::em(1.55F); }

struct Bar {
  ImVec2 from, to;
};

// Of the tokens [begin, end) in a row, wide enough to be seen.
Bar bar_of(double begin, double end, double row) {
  const float inset = row_height() * 0.14F;
  ImVec2 from = ImPlot::PlotToPixels(begin, row), to = ImPlot::PlotToPixels(end, row + 1);
  const float missing = widgets::em(0.25F) - (to.x - from.x);
  if (missing > 0) from.x -= missing / 2, to.x += missing / 2;
  return {{from.x, from.y + inset}, {to.x, to.y - inset}};
}

// What one row says of the tokens under the mouse.
bool is_over(const Bar& bar) {
  return ImPlot::IsPlotHovered() && ImGui::IsMouseHoveringRect(bar.from, bar.to);
}

std::string chunk_words(const state::Place& place, std::size_t chunk) {
  const trace::ChunkInfo& info = place.info().chunks[chunk];
  return fmt::format("{}: tokens {} to {}", chunk_name(place.info(), static_cast<int>(chunk)),
                     format_count(info.begin), format_count(info.end() - 1));
}

void label_ui(const Bar& bar, const std::string& text, ImU32 background) {
  const ImVec2 size = ImGui::CalcTextSize(text.c_str());
  if (size.x + widgets::em(0.4F) > bar.to.x - bar.from.x) return;
  ImPlot::GetPlotDrawList()->AddText(
      {(bar.from.x + bar.to.x - size.x) / 2, (bar.from.y + bar.to.y - size.y) / 2},
      widgets::ink_on(background), text.c_str());
}

void chunks_ui(DrawContext& context, const state::Place& place) {
  const auto& chunks = place.info().chunks;
  const widgets::Palette& palette = context.palette;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const bool here = !context.figure && static_cast<int>(c) == place.chunk;
    Bar bar = bar_of(chunks[c].begin, chunks[c].end(), 0);
    if (bar.to.x - bar.from.x > widgets::em(0.5F)) bar.to.x -= std::max(1.0F, widgets::em(0.1F));
    const ImU32 color = here                                       ? palette.accent
                        : chunks[c].phase == trace::Phase::Prefill ? palette.line
                                                                   : palette.series[2];
    ImPlot::GetPlotDrawList()->AddRectFilled(bar.from, bar.to, color, widgets::em(0.15F));
    label_ui(bar, std::to_string(c), color);
    if (context.figure || !is_over(bar)) continue;
    widgets::tooltip("%s\nclick: go to it", chunk_words(place, c).c_str());
    if (plot_clicked()) context.workspace.cursor.set_chunk(static_cast<int>(c));
  }
}

void words_inside_ui(const Bar& bar, const std::string& words, ImU32 color) {
  const float gap = widgets::em(0.4F), room = bar.to.x - bar.from.x - 2 * gap;
  if (room < widgets::em(2)) return;
  const float y = (bar.from.y + bar.to.y - ImGui::GetTextLineHeight()) / 2;
  ImPlot::GetPlotDrawList()->AddText({bar.from.x + gap, y}, widgets::ink_on(color),
                                     widgets::elided(words, room).c_str());
}

// The words stand where they have room: in the bar, right of it, or left of it.
void words_ui(DrawContext& context, const Bar& bar, const std::string& words, ImU32 color) {
  const float gap = widgets::em(0.4F), wide = ImGui::CalcTextSize(words.c_str()).x + 2 * gap;
  const float left_edge = ImPlot::GetPlotPos().x;
  const float right_edge = left_edge + ImPlot::GetPlotSize().x;
  const float y = (bar.from.y + bar.to.y - ImGui::GetTextLineHeight()) / 2;
  const float inside = bar.to.x - bar.from.x, right = right_edge - bar.to.x,
              left = bar.from.x - left_edge;
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const auto put = [&](float x, float room, ImU32 ink) {
    draw->AddText({x + gap, y}, ink, widgets::elided(words, room - 2 * gap).c_str());
  };
  if (inside >= std::min(wide, std::max(left, right)))
    put(bar.from.x, inside, widgets::ink_on(color));
  else if (right >= std::min(wide, left))
    put(bar.to.x, right, context.palette.text);
  else
    put(bar.from.x - std::min(wide, left), std::min(wide, left), context.palette.text);
}

// "role" of "role:user"; else the name.
std::string kind_of(const std::string& name) { return name.substr(0, name.find(':')); }

// `alone`: in its row, so that its words may stand beside its bar.
void span_ui(DrawContext& context, const state::Place& place,
             const state::TraceInfoQuestion::Fact& fact, double row, bool alone) {
  const trace::TokenSpan& span = *fact.span;
  const auto keys = state::watched_keys(place);
  const bool watched = keys && keys->keys.is(span.begin, span.end);
  const ImU32 color = watched ? context.palette.accent : context.palette.muted;
  const Bar bar = bar_of(span.begin, span.end, row);
  ImPlot::GetPlotDrawList()->AddRectFilled(bar.from, bar.to, color, widgets::em(0.15F));
  const std::string quote = state::readable_name(fact.quote);
  Bar line = bar;
  if (alone) {
    words_ui(context, bar, quote, color);
    line = {{ImPlot::GetPlotPos().x, bar.from.y},
            {ImPlot::GetPlotPos().x + ImPlot::GetPlotSize().x, bar.to.y}};
  } else {
    const std::string of_kind =
        span.name.substr(std::min(kind_of(span.name).size() + 1, span.name.size()));
    words_inside_ui(bar, of_kind.empty() ? quote : state::readable_name(of_kind) + ": " + quote,
                    color);
  }
  if (context.figure || !is_over(line)) return;
  const std::string words = state::readable_name(fact.words);
  context.workspace.pointer.at({.row = words, .place = place, .keys = {span.begin, span.end}});
  widgets::tooltip("%s\n%s\nclick: watch these keys everywhere", span.name.c_str(), words.c_str());
  if (plot_clicked()) context.workspace.cursor.set_keys(span.begin, span.end);
}

int seconds_tick(double value, char* buffer, int size, void* /*data*/) {
  return std::snprintf(buffer, static_cast<std::size_t>(size), "%g", value);
}

constexpr ImPlotFlags kPlot = ImPlotFlags_NoLegend | ImPlotFlags_NoMenus | ImPlotFlags_NoMouseText |
                              ImPlotFlags_NoBoxSelect | ImPlotFlags_NoTitle;

}  // namespace

void TraceTimeline::draw(DrawContext& context, const state::Place& place,
                         const state::TraceInfoQuestion::Answer& answer,
                         const std::function<void()>& between) {
  if (place.info().num_tokens == 0) return between();
  std::vector<const Fact*> spans;
  for (const Fact& fact : answer.facts)
    if (fact.span) spans.push_back(&fact);
  const std::size_t all = spans.size();
  spans.resize(std::min(all, kMostSpans));
  if (tokens_ != place.info().num_tokens) x_ = {0.0, 1.0 * place.info().num_tokens};
  tokens_ = place.info().num_tokens;
  if (!ImPlot::BeginAlignedPlots("##timeline", true)) return between();
  const TickRoom room;
  const bool timed = std::ranges::any_of(
      answer.chunk_seconds, [](float seconds) { return std::isfinite(seconds) && seconds > 0; });
  rows_ui(context, place, rows_of(spans));
  if (spans.size() < all)
    widgets::text_wrapped(context.palette.muted,
                          fmt::format("Drawn are the first {} of {} spans; the span picker above "
                                      "and export --csv have all.",
                                      spans.size(), all));
  between();
  if (timed) seconds_ui(context, place, answer.chunk_seconds);
  ImPlot::EndAlignedPlots();
}

void TraceTimeline::set_up_tokens(const state::Place& place) {
  ImPlot::SetupAxis(ImAxis_X1, "token", ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_NoTickMarks);
  ImPlot::SetupAxisFormat(ImAxis_X1, format_token_tick);
  ImPlot::SetupAxisLimitsConstraints(ImAxis_X1, 0, place.info().num_tokens);
  ImPlot::SetupAxisLinks(ImAxis_X1, &x_.Min, &x_.Max);
}

std::vector<TraceTimeline::Row> TraceTimeline::rows_of(const std::vector<const Fact*>& spans) {
  std::vector<Row> rows;
  for (const Fact* fact : spans) {
    const auto covers = [&](const Fact* other) {
      return other->span->begin < fact->span->end && fact->span->begin < other->span->end;
    };
    const auto row = std::ranges::find_if(rows, [&](const Row& other) {
      return kind_of(other.spans.front()->span->name) == kind_of(fact->span->name) &&
             std::ranges::none_of(other.spans, covers);
    });
    if (row == rows.end()) {
      rows.push_back({fact->span->name, {fact}});
    } else {
      row->name = kind_of(fact->span->name);
      row->spans.push_back(fact);
    }
  }
  return rows;
}

void TraceTimeline::rows_ui(DrawContext& context, const state::Place& place,
                            const std::vector<Row>& rows) {
  std::vector<std::string> names = {"chunk"};
  for (const Row& row : rows)
    names.push_back(widgets::elided(state::readable_name(row.name), widgets::em(10)));
  std::vector<const char*> labels;
  std::vector<double> middles;
  for (const std::string& name : names) {
    middles.push_back(static_cast<double>(middles.size()) + 0.5);
    labels.push_back(name.c_str());
  }
  const auto num_rows = static_cast<double>(names.size());
  const float axis = 2 * ImGui::GetTextLineHeight() + widgets::em(1.2F);
  const float height =
      std::max(static_cast<float>(num_rows) * row_height() + axis, least_plot_height());
  if (!ImPlot::BeginPlot("##rows", {-1, height}, kPlot)) return;
  set_up_tokens(place);
  ImPlot::SetupAxis(ImAxis_Y1, nullptr,
                    ImPlotAxisFlags_Invert | ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_Lock |
                        ImPlotAxisFlags_NoTickMarks);
  ImPlot::SetupAxisLimits(ImAxis_Y1, 0, num_rows, ImPlotCond_Always);
  ImPlot::SetupAxisTicks(ImAxis_Y1, middles.data(), static_cast<int>(middles.size()),
                         labels.data());
  ImPlot::PushPlotClipRect();
  chunks_ui(context, place);
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (const Fact* fact : rows[i].spans)
      span_ui(context, place, *fact, static_cast<double>(i + 1), rows[i].spans.size() == 1);
  ImPlot::PopPlotClipRect();
  ImPlot::EndPlot();
}

// A number that is none, or below zero, is no time: the chunk has no bar.
void TraceTimeline::seconds_ui(DrawContext& context, const state::Place& place,
                               const std::vector<float>& seconds) {
  float longest = 0;
  for (const float value : seconds)
    if (std::isfinite(value)) longest = std::max(longest, value);
  if (longest <= 0) return;
  // A figure has nothing to scroll with, and the facts above say it in words.
  if (context.figure && ImGui::GetContentRegionAvail().y < widgets::em(11)) return;
  heading_ui(context, "Time by chunk", "seconds, what was recorded beside the model included");
  // In the window the panel scrolls.
  const float height =
      context.figure
          ? std::min(plot_height(context, ImGui::GetContentRegionAvail().y), widgets::em(14))
          : std::max(least_plot_height(), widgets::em(11));
  if (!ImPlot::BeginPlot("##seconds", {-1, height}, kPlot)) return;
  set_up_tokens(place);
  ImPlot::SetupAxis(ImAxis_Y1, "seconds", ImPlotAxisFlags_Lock);
  ImPlot::SetupAxisFormat(ImAxis_Y1, seconds_tick);
  ImPlot::SetupAxisLimits(ImAxis_Y1, 0, longest * 1.1,
                          fit_.condition(fmt::format("{}/{}", place.trace->name, longest)));
  ImPlot::PushPlotClipRect();
  const auto& chunks = place.info().chunks;
  for (std::size_t c = 0; c < std::min(chunks.size(), seconds.size()); ++c) {
    if (!(seconds[c] > 0) || !std::isfinite(seconds[c])) continue;
    const ImVec2 top = ImPlot::PlotToPixels(chunks[c].begin, seconds[c]);
    const ImVec2 foot = ImPlot::PlotToPixels(chunks[c].end(), 0);
    const float gap = foot.x - top.x > widgets::em(0.5F) ? std::max(1.0F, widgets::em(0.1F)) : 0;
    const bool here = !context.figure && static_cast<int>(c) == place.chunk;
    const Bar bar{top, {std::max(foot.x - gap, top.x + 1), foot.y}};
    ImPlot::GetPlotDrawList()->AddRectFilled(
        bar.from, bar.to, here ? context.palette.accent : context.palette.series[0]);
    if (context.figure || !is_over({{top.x, ImPlot::GetPlotPos().y}, foot})) continue;
    widgets::tooltip("%s\n%.3g s, %s tokens a second\nclick: go to it",
                     chunk_words(place, c).c_str(), static_cast<double>(seconds[c]),
                     format_count(std::llround(chunks[c].length / seconds[c])).c_str());
    if (plot_clicked()) context.workspace.cursor.set_chunk(static_cast<int>(c));
  }
  ImPlot::PopPlotClipRect();
  ImPlot::EndPlot();
}

}  // namespace kvloupe::panels
