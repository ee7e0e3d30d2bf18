// miss_inspector: what became of one key or span (a needle) in every chunk, for both methods, and a
// sentence that says it for the current chunk.
#include "app/state/questions/miss_inspector.h"

#include "app/panels/map_plot.h"
#include "app/state/token_text.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace kvloupe::panels {
namespace {

using state::MissQuestion;
using state::Place;
using state::Slot;
using Miss = state::Result<MissQuestion>;

constexpr std::int32_t kMostTokensShown = 60;

class MissInspectorPanel final : public Panel {
 public:
  void draw(DrawContext& context) override {
    if (!trace_ready_ui(context)) return;
    const Place& place = context.workspace.place();
    const auto span = state::watched_span(place);
    widgets::figure_head_ui(
        context.palette, context.figure,
        span ? fmt::format("What became of \u201C{}\u201D", state::readable_name(span->name))
             : "Miss inspector",
        "", place_caption(place), trace_chips(context, place));
    if (!span) {
      widgets::empty_ui(context.palette,
                        "Click a key in any view, or select a word in the token strip.");
      return;
    }
    span_text_ui(context, place, *span);
    slots_ui(context);
  }

 private:
  static void span_text_ui(DrawContext& context, const Place& place, const trace::TokenSpan& span) {
    const std::vector<std::string>& tokens = place.trace->text;
    const auto last = std::min(
        {span.end, span.begin + kMostTokensShown, static_cast<std::int32_t>(tokens.size())});
    std::string text;
    for (std::int32_t t = span.begin; t < last; ++t) text += tokens[static_cast<std::size_t>(t)];
    if (span.end > last) text += "\u2026";
    {
      const widgets::FontScope mono(widgets::fonts().mono, 1.0F);
      widgets::text_wrapped(context.palette.text, fmt::format("\u201C{}\u201D", text));
    }
    const std::string where =
        span.end == span.begin + 1
            ? fmt::format("token {}", format_count(span.begin))
            : fmt::format("tokens {} to {}", format_count(span.begin), format_count(span.end - 1));
    widgets::text_wrapped(
        context.palette.muted,
        fmt::format("{}: {}, {}", state::readable_name(span.name), where,
                    chunk_name(place.info(), place.info().chunk_of_token(span.begin))));
  }

  // One below the other, or beside each other where the room is low and wide.
  void slots_ui(DrawContext& context) {
    const state::Workspace& workspace = context.workspace;
    std::vector<Slot> slots;
    for (const Slot slot : state::kSlots)
      if (!workspace.method(slot).empty()) slots.push_back(slot);
    if (slots.size() == 2 && workspace.method(Slot::A) == workspace.method(Slot::B))
      slots.pop_back();
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const auto parts = static_cast<float>(std::max<std::size_t>(1, slots.size()));
    const bool beside = room.y / parts < widgets::em(15) && room.x / parts > widgets::em(20);
    const float gap = widgets::em(0.5F);
    const float width = beside ? room.x / parts - gap : room.x;
    const float height = beside ? room.y : room.y / parts - gap;
    for (const Slot slot : slots) {
      if (beside && slot != slots.front()) ImGui::SameLine(0, gap);
      const MissQuestion question{workspace.place(), workspace.method(slot)};
      const Miss miss = shown_[static_cast<std::size_t>(slot)].ask(context.workspace, question);
      // As high as its content; what stands in place of that is centered in a given height.
      const ImVec2 size(width, miss ? 0 : std::max(height, widgets::em(9)));
      ImGui::BeginChild(slot == Slot::A ? "fate a" : "fate b", size,
                        miss ? ImGuiChildFlags_AutoResizeY : ImGuiChildFlags_None);
      slot_ui(context, slot, miss, height);
      ImGui::EndChild();
    }
  }

  static void slot_ui(DrawContext& context, Slot slot, const Miss& miss, float height) {
    const Place& place = miss.question.place;
    if (!miss) {
      widgets::figure_head_ui(
          context.palette, context.figure, "", "", "",
          method_chips(context, place, state::facts_of(place, miss.question.method), slot));
      ready_ui(context, miss, "Following the span through the chunks");
      return;
    }
    widgets::figure_head_ui(context.palette, context.figure, "", "", "",
                            method_chips(context, place, miss->facts, slot));
    ready_ui(context, miss, "");
    sentence_ui(context, miss);
    if (!miss->deaths.empty()) widgets::text_wrapped(context.palette.muted, miss->deaths);
    method_note_ui(context, place, miss->facts);
    chart_ui(context, slot, miss, height);
  }

  static void sentence_ui(DrawContext& context, const Miss& miss) {
    const MissQuestion::Chunk& chunk =
        miss->chunks.at(static_cast<std::size_t>(miss.question.place.chunk));
    const ImU32 color = chunk.total == 0            ? context.palette.muted
                        : chunk.kept == chunk.total ? context.palette.text
                                                    : context.palette.error;
    widgets::text_wrapped(color, state::sentence_of(miss.question, *miss));
  }

  // Bars: the span's share of true mass in each chunk, coloured by how much of it was kept.
  static void chart_ui(DrawContext& context, Slot slot, const Miss& miss, float slot_height) {
    widgets::color_scale_ui(context.palette, widgets::diverging_color, "lost", "kept", "",
                            widgets::em(6));
    const float height = std::max(slot_height - ImGui::GetCursorPosY(), widgets::em(9));
    if (!ImPlot::BeginPlot(slot == Slot::A ? "##fate a" : "##fate b", {-1, height},
                           ImPlotFlags_CanvasOnly))
      return;
    const auto num_chunks = static_cast<double>(miss->chunks.size());
    ImPlot::SetupAxes(miss->axis.c_str(), "share of mass",
                      ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_Lock, ImPlotAxisFlags_Lock);
    ImPlot::SetupAxisLimits(ImAxis_X1, -0.5, num_chunks - 0.5, ImPlotCond_Always);
    ImPlot::SetupAxisLimits(ImAxis_Y1, 0, std::max(1e-4, miss->top_mass) * 1.28, ImPlotCond_Always);
    ImPlot::SetupAxisFormat(ImAxis_X1, format_token_tick);
    ImPlot::SetupAxisFormat(ImAxis_Y1, [](double value, char* buffer, int size, void*) {
      if (value > 1.001) return std::snprintf(buffer, static_cast<std::size_t>(size), "%s", "");
      return std::snprintf(buffer, static_cast<std::size_t>(size), "%g %%", value * 100);
    });
    ImPlot::SetupFinish();
    ImPlot::PushPlotClipRect();
    const int here = miss.question.place.chunk;
    const ImPlotRect limits = ImPlot::GetPlotLimits();
    ImPlot::GetPlotDrawList()->AddRectFilled(ImPlot::PlotToPixels(here - 0.5, limits.Y.Max),
                                             ImPlot::PlotToPixels(here + 0.5, 0),
                                             widgets::with_alpha(context.palette.accent, 0.12F));
    for (const MissQuestion::Bar& bar : miss->bars) bar_ui(context, bar);
    ImPlot::PopPlotClipRect();
    if (ImPlot::IsPlotHovered() && !context.figure) point_at(context, miss);
    ImPlot::EndPlot();
  }

  static void bar_ui(DrawContext& context, const MissQuestion::Bar& bar) {
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    const ImVec2 from = ImPlot::PlotToPixels(bar.first - 0.4, bar.span_mass);
    const ImVec2 to = ImPlot::PlotToPixels(bar.last - 1 + 0.4, 0);
    const float top = std::min(from.y, to.y - 2);
    const ImVec2 foot(std::max(to.x, from.x + 1), to.y);
    const double share = static_cast<double>(bar.kept) / static_cast<double>(bar.total);
    draw->AddRectFilled({from.x, top}, foot, widgets::diverging_color(context.palette, share), 2);
    // The middle of the colours is close to the plot's own.
    if (to.x - from.x > widgets::em(0.5F))
      draw->AddRect({from.x, top}, foot, widgets::with_alpha(context.palette.faint, 0.7F), 2);
    if (bar.last > bar.first + 1) return;
    const widgets::FontScope small(widgets::fonts().body, 0.85F);
    const std::string text = fmt::format("{}/{}", bar.kept, bar.total);
    const float width = ImGui::CalcTextSize(text.c_str()).x;
    if (width < (to.x - from.x) * 1.2F)
      draw->AddText({(from.x + to.x - width) / 2, top - ImGui::GetTextLineHeight() - 1},
                    context.palette.text, text.c_str());
  }

  static void point_at(DrawContext& context, const Miss& miss) {
    const auto chunk = static_cast<std::int64_t>(std::floor(ImPlot::GetPlotMousePos().x + 0.5));
    if (chunk < 0 || chunk >= static_cast<std::int64_t>(miss->chunks.size())) return;
    const MissQuestion::Chunk& fate = miss->chunks[static_cast<std::size_t>(chunk)];
    const std::string name = chunk_name(miss.question.place.info(), static_cast<int>(chunk));
    if (fate.total == 0)
      ImGui::SetTooltip("%s\nthe span does not lie before it", name.c_str());
    else
      ImGui::SetTooltip("%s\nkept %d of %d key%s\n%.4f %% of the mass\nbest true rank %d of %lld",
                        name.c_str(), fate.kept, fate.total, fate.total == 1 ? "" : "s",
                        100 * fate.span_mass, fate.best_true_rank + 1,
                        static_cast<long long>(fate.num_candidates));
    if (plot_clicked() && !miss.stale) context.workspace.cursor.set_chunk(static_cast<int>(chunk));
  }

  std::array<state::Shown<MissQuestion>, 2> shown_;
};

}  // namespace

std::unique_ptr<Panel> make_miss_inspector_panel() {
  return std::make_unique<MissInspectorPanel>();
}

}  // namespace kvloupe::panels
