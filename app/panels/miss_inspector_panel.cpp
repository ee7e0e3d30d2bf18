// miss_inspector: what became of one key or span (a needle) in every chunk, for both methods, and a
// sentence that says it for the current chunk.
#include "app/panels/map_plot.h"

#include "core/base/units.h"

#include <fmt/format.h>
#include <implot/implot.h>

#include <algorithm>
#include <map>

namespace kvloupe::panels {
namespace {

using analysis::SpanFate;
using state::Slot;

// The chunks after which keys of the span died, "5 (3 keys), 9"; empty if none did.
std::string deaths_of(const replay::ReplayResult& replay, int layer, int row,
                      const trace::TokenSpan& span) {
  const std::vector<std::uint16_t> deaths = analysis::deaths_in(replay, layer, row);
  std::map<int, int> keys_of;
  for (auto key = static_cast<std::size_t>(span.begin);
       key < std::min(static_cast<std::size_t>(span.end), deaths.size()); ++key)
    if (deaths[key] != trace::kAlive) ++keys_of[deaths[key]];
  std::string text;
  for (const auto& [chunk, keys] : keys_of)
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", chunk,
                        keys > 1 ? fmt::format(" ({} keys)", keys) : std::string());
  return text;
}

class MissInspectorPanel final : public Panel {
 public:
  void draw(DrawContext& context) override {
    if (!trace_ready_ui(context)) return;
    auto& workspace = context.workspace;
    const auto span = workspace.watched_span();
    widgets::figure_head_ui(
        context.palette, context.figure,
        span ? fmt::format("What became of \u201C{}\u201D", span->name) : "Miss inspector", "",
        place_caption(workspace), trace_chips(context));
    if (!span) {
      widgets::empty_ui(context.palette,
                        "Click a key in any view, or select a word in the token strip.");
      return;
    }
    span_text_ui(context, *span);
    const float room = ImGui::GetContentRegionAvail().y;
    int slots = 0;
    for (const Slot slot : state::kSlots) slots += !workspace.selection().choice(slot).empty();
    for (const Slot slot : state::kSlots) {
      if (workspace.selection().choice(slot).empty()) continue;
      const float height = std::max(widgets::em(context.figure ? 11.0F : 17.0F),
                                    room / static_cast<float>(slots) - widgets::em(0.5F));
      ImGui::BeginChild(slot == Slot::A ? "fate a" : "fate b", {0, height});
      slot_ui(context, slot, *span);
      ImGui::EndChild();
    }
  }

  Table table(state::Workspace& workspace) override {
    Table table{{"method", "span", "layer", "row", "chunk", "kept", "total", "mass_share",
                 "best_true_rank", "evicted_after", "leakage"},
                {}};
    const auto span = workspace.watched_span();
    if (!span) return table;
    for (const Slot slot : state::kSlots) {
      const auto fates = workspace.span_fate(slot, *span);
      if (!fates) continue;
      const auto facts = workspace.facts(slot);
      const auto replay = workspace.replay(slot);
      for (const SpanFate& fate : *fates)
        table.rows.push_back({workspace.selection().choice(slot).spec, span->name,
                              cell(std::int64_t{fate.layer}), cell(std::int64_t{fate.row}),
                              cell(std::int64_t{fate.chunk}), cell(std::int64_t{fate.kept}),
                              cell(std::int64_t{fate.total}), cell(fate.span_mass),
                              cell(std::int64_t{fate.best_true_rank}),
                              replay ? deaths_of(*replay, fate.layer, fate.row, *span) : "",
                              facts && facts->leakage ? "1" : "0"});
    }
    return table;
  }

  std::string problem(state::Workspace& workspace) override {
    const auto span = workspace.watched_span();
    if (!span) return "no key is selected and the trace has no needle: name one with --goto key=N";
    std::string problem;
    for (const Slot slot : state::kSlots)
      if (!workspace.selection().choice(slot).empty())
        if (const std::string why = problem_of(workspace.span_fate(slot, *span)); !why.empty())
          problem = why;
    return problem;
  }

 private:
  static void span_text_ui(DrawContext& context, const trace::TokenSpan& span) {
    const auto* tab = context.workspace.ready();
    std::string text;
    for (std::int32_t t = span.begin; t < std::min(span.end, span.begin + 60); ++t)
      text += tab->text[static_cast<std::size_t>(t)];
    if (span.end > span.begin + 60) text += "\u2026";
    {
      const widgets::FontScope mono(widgets::fonts().mono, 1.0F);
      widgets::text_wrapped(context.palette.text, fmt::format("\u201C{}\u201D", text));
    }
    widgets::text_colored(context.palette.muted,
                          fmt::format("{}: tokens {} to {}, chunk {}", span.name,
                                      format_count(span.begin), format_count(span.end - 1),
                                      context.workspace.info().chunk_of_token(span.begin)));
  }

  static void slot_ui(DrawContext& context, Slot slot, const trace::TokenSpan& span) {
    auto& workspace = context.workspace;
    widgets::figure_head_ui(context.palette, context.figure, "", "", "",
                            method_chips(context, slot));
    const auto fates = workspace.span_fate(slot, span);
    if (!ready_ui(context, fates, "Following the span through the chunks")) return;
    const auto replay = workspace.replay(slot);
    if (!replay) return;
    const int row = workspace.row_of(*replay);
    std::vector<const SpanFate*> mine;
    for (const SpanFate& fate : *fates)
      if (fate.row == row && fate.layer == workspace.selection().layer) mine.push_back(&fate);
    sentence_ui(context, slot, span, *replay, mine);
    const std::string deaths = deaths_of(*replay, workspace.selection().layer, row, span);
    if (!deaths.empty())
      widgets::text_wrapped(context.palette.muted,
                            fmt::format("Keys evicted after chunk {}.", deaths));
    method_note_ui(context, slot);
    chart_ui(context, slot, mine);
  }

  static void sentence_ui(DrawContext& context, Slot slot, const trace::TokenSpan& span,
                          const replay::ReplayResult& replay,
                          const std::vector<const SpanFate*>& mine) {
    const auto& s = context.workspace.selection();
    const std::string method = s.choice(slot).spec.substr(0, s.choice(slot).spec.find(':'));
    const std::string place = fmt::format("At chunk {}, layer {}, KV head {}", s.chunk, s.layer,
                                          context.workspace.kv_head());
    const auto found = std::find_if(mine.begin(), mine.end(),
                                    [&](const SpanFate* fate) { return fate->chunk == s.chunk; });
    if (found == mine.end() || (*found)->total == 0) {
      widgets::text_wrapped(
          context.palette.muted,
          fmt::format(
              "{}: the span does not lie before the chunk, so nothing was decided about it.",
              place));
      return;
    }
    const SpanFate& fate = **found;
    const auto* cell = replay.find(s.layer, s.chunk);
    std::string why;
    if (cell != nullptr && cell->dense_reason) {
      why = "everything is kept here.";
    } else if (cell != nullptr && static_cast<std::size_t>(fate.row) < cell->rows.size()) {
      const auto kept = static_cast<std::int64_t>(
          cell->rows[static_cast<std::size_t>(fate.row)].positions.size());
      if (fate.kept == 0 && fate.best_true_rank >= 0 && fate.best_true_rank < kept)
        why = fmt::format(
            "its best key ranks {} of {} by true mass, so the {} kept had room for it: the "
            "method's choice lost it, not the budget.",
            format_count(fate.best_true_rank + 1), format_count(cell->span.begin),
            format_count(kept));
      else
        why = fmt::format("its best key ranks {} of {} by true mass; {} keys are kept.",
                          format_count(fate.best_true_rank + 1), format_count(cell->span.begin),
                          format_count(kept));
    }
    const ImU32 color = fate.kept == fate.total ? context.palette.text : context.palette.error;
    widgets::text_wrapped(color, fmt::format("{}, {} keeps {} of {} keys of \u201C{}\u201D, which "
                                             "carry {} of the attention mass; {}",
                                             place, method, fate.kept, fate.total, span.name,
                                             percent(fate.span_mass), why));
  }

  // Bars: the span's share of true mass in each chunk, coloured by how much of it was kept.
  static void chart_ui(DrawContext& context, Slot slot, const std::vector<const SpanFate*>& mine) {
    widgets::color_scale_ui(context.palette, widgets::diverging_color, "lost", "kept", "",
                            widgets::em(6));
    double top = 1e-4;
    for (const SpanFate* fate : mine) top = std::max(top, fate->span_mass);
    constexpr ImPlotFlags kFlags = ImPlotFlags_CanvasOnly;
    if (!ImPlot::BeginPlot(slot == Slot::A ? "##fate a" : "##fate b",
                           ImGui::GetContentRegionAvail(), kFlags))
      return;
    const auto num_chunks = static_cast<double>(context.workspace.info().chunks.size());
    ImPlot::SetupAxes("chunk", "share of mass", ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_Lock,
                      ImPlotAxisFlags_Lock);
    ImPlot::SetupAxisLimits(ImAxis_X1, -0.5, num_chunks - 0.5, ImPlotCond_Always);
    ImPlot::SetupAxisLimits(ImAxis_Y1, 0, top * 1.28, ImPlotCond_Always);
    ImPlot::SetupAxisFormat(ImAxis_X1, format_token_tick);
    ImPlot::SetupAxisFormat(ImAxis_Y1, [](double value, char* buffer, int size, void*) {
      return std::snprintf(buffer, static_cast<std::size_t>(size), "%g %%", value * 100);
    });
    ImPlot::SetupFinish();
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    ImPlot::PushPlotClipRect();
    const int here = context.workspace.selection().chunk;
    const ImPlotRect limits = ImPlot::GetPlotLimits();
    draw->AddRectFilled(ImPlot::PlotToPixels(here - 0.5, limits.Y.Max),
                        ImPlot::PlotToPixels(here + 0.5, 0),
                        widgets::with_alpha(context.palette.accent, 0.12F));
    for (const SpanFate* fate : mine) {
      if (fate->total == 0) continue;
      const ImVec2 from = ImPlot::PlotToPixels(fate->chunk - 0.4, fate->span_mass);
      const ImVec2 to = ImPlot::PlotToPixels(fate->chunk + 0.4, 0);
      const double share = static_cast<double>(fate->kept) / fate->total;
      draw->AddRectFilled({from.x, std::min(from.y, to.y - 2)}, to,
                          widgets::diverging_color(context.palette, share), 2);
      const widgets::FontScope small(widgets::fonts().body, 0.85F);
      const std::string text = fmt::format("{}/{}", fate->kept, fate->total);
      const float width = ImGui::CalcTextSize(text.c_str()).x;
      if (width < (to.x - from.x) * 1.3F)
        draw->AddText({(from.x + to.x - width) / 2,
                       std::min(from.y, to.y - 2) - ImGui::GetTextLineHeight() - 1},
                      context.palette.text, text.c_str());
    }
    ImPlot::PopPlotClipRect();
    if (ImPlot::IsPlotHovered() && !context.figure) {
      const int chunk = static_cast<int>(ImPlot::GetPlotMousePos().x + 0.5);
      for (const SpanFate* fate : mine)
        if (fate->chunk == chunk)
          ImGui::SetTooltip("chunk %d\nkept %d of %d keys\n%.4f %% of the mass\nbest true rank %d",
                            chunk, fate->kept, fate->total, 100 * fate->span_mass,
                            fate->best_true_rank);
      if (ImGui::IsMouseReleased(ImGuiMouseButton_Left)) context.workspace.set_chunk(chunk);
    }
    ImPlot::EndPlot();
  }
};

}  // namespace

std::unique_ptr<Panel> make_miss_inspector_panel() {
  return std::make_unique<MissInspectorPanel>();
}

}  // namespace kvloupe::panels
