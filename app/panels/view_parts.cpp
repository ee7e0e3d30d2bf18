// See view_parts.h.
#include "app/panels/view_parts.h"

#include "core/base/units.h"

#include <fmt/format.h>
#include <implot/implot.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::panels {
namespace {

std::string number(double value) {
  return std::abs(value - std::round(value)) < 0.05 ? format_count(std::llround(value))
                                                    : fmt::format("{:.1f}", value);
}

// A part of a span that is marked itself.
bool inside_another(const trace::TokenSpan& part, const std::vector<trace::TokenSpan>& spans) {
  return std::any_of(spans.begin(), spans.end(), [&](const trace::TokenSpan& span) {
    return span.name.rfind("role", 0) != 0 && span.begin <= part.begin && part.end <= span.end &&
           span.end - span.begin > part.end - part.begin;
  });
}

const char* words_of(trace::LoopMode mode) {
  return mode == trace::LoopMode::OpenLoop ? "open loop" : "closed loop";
}

bool has_decode(const trace::TraceInfo& info) {
  return !info.chunks.empty() && info.chunks.back().phase == trace::Phase::Decode;
}

widgets::Chip basis_chip(const widgets::Palette& palette, const state::MethodFacts& facts) {
  if (facts.leakage)
    return {"leakage: basis fitted on this text", palette.warning,
            "The directions that queries and keys are rotated by were fitted on text of this very "
            "trace: better than they can be on new text.",
            "leakage"};
  return {fmt::format("basis: {}", facts.basis->source), 0,
          fmt::format("Directions fitted on {} tokens of {}.",
                      format_count(facts.basis->num_tokens), facts.basis->source),
          facts.basis->source};
}

// Grows with the past: what is asked for differs from chunk to chunk.
bool budget_is_a_share(const state::MethodFacts& facts) {
  const auto spec = selection::MethodSpec::parse(facts.choice.spec);
  return spec.has("token_ratio") || (spec.has_budget() && spec.real("budget_ratio") > 0);
}

bool is_extension(const std::string& spec) {
  return selection::title_of(selection::MethodSpec::parse(spec)).ends_with("(extension)");
}

widgets::Chip budget_chip(const state::MethodFacts& facts) {
  std::string brief = facts.requested_budget ? number(*facts.requested_budget) : "none";
  std::string text = (budget_is_a_share(facts) ? "mean budget " : "budget ") + brief;
  if (facts.effective_budget) {
    brief += fmt::format(" \u2192 {} kept", number(*facts.effective_budget));
    text += fmt::format(" \u2192 {} kept", number(*facts.effective_budget));
    if (facts.forced > 0) text += fmt::format(", {} by rule", number(facts.forced));
    text += fmt::format(", {}", format_bytes(facts.bytes));
  }
  return {text, 0,
          fmt::format("KVs asked for, and the mean number kept over the chunks that selected, for "
                      "this row; of those {} forced by rule (sinks, window, recent). They take {} "
                      "of K and V as stored.",
                      number(facts.forced), format_bytes(facts.bytes)),
          brief};
}

}  // namespace

std::string method_caption(state::Workspace& workspace, state::Slot slot) {
  const auto facts = workspace.facts(slot);
  if (!facts) return {};
  return facts->choice.spec + (facts->leakage ? "  (leakage: basis fitted on this text)" : "");
}

std::string method_note(state::Workspace& workspace, state::Slot slot) {
  const auto facts = workspace.facts(slot);
  if (!facts) return {};
  const int layer = workspace.selection().layer;
  if (facts->prunes_lanes && !facts->evicts)
    return fmt::format(
        "{} drops lanes of the dot product, not keys: every key is kept. The view "
        "AQUA lanes shows what it cuts.",
        facts->id);
  if (facts->source_layer)
    return fmt::format("Layer {} reuses layer {}'s set; it scored nothing here.", layer,
                       *facts->source_layer);
  if (facts->dense_here == trace::DenseReason::MethodRule && facts->id != "dense")
    return fmt::format("Layer {} is dense by {}'s rule: everything is kept.", layer, facts->id);
  if (facts->prunes_lanes)
    return fmt::format("{} also drops lanes of the dot product: see the view AQUA lanes.",
                       facts->id);
  return {};
}

void method_note_ui(DrawContext& context, state::Slot slot) {
  const std::string note = method_note(context.workspace, slot);
  if (!note.empty()) widgets::text_wrapped(context.palette.warning, note);
}

void heading_ui(DrawContext& context, const std::string& title, const std::string& measured) {
  {
    const widgets::FontScope strong(widgets::fonts().strong, 1.0F);
    widgets::text_colored(context.palette.text, title);
  }
  ImGui::SameLine(0, widgets::em(0.7F));
  const widgets::FontScope small(widgets::fonts().body, 0.9F);
  widgets::text_colored(context.palette.muted,
                        widgets::elided(measured, ImGui::GetContentRegionAvail().x));
}

widgets::Chip extension_chip(const widgets::Palette& palette, const std::string& spec) {
  return {selection::title_of(selection::MethodSpec::parse(spec)), palette.warning,
          "This form of the method is not in its paper.", "extension"};
}

std::string percent(double share) {
  return std::isnan(share) ? "\u2013" : fmt::format("{:.1f} %", share * 100);
}

std::string place_caption(const state::Workspace& workspace) {
  if (workspace.ready() == nullptr) return {};
  const auto& s = workspace.selection();
  const auto& chunk = workspace.chunk();
  return fmt::format(
      "{}  \u00B7  {}  \u00B7  layer {}  \u00B7  query head {} (KV head {})  \u00B7  chunk {}{}: "
      "tokens {} to {}",
      workspace.trace_name(), workspace.info().model.name, s.layer, s.q_head, workspace.kv_head(),
      s.chunk, chunk.phase == trace::Phase::Decode ? " (decode)" : "", format_count(chunk.begin),
      format_count(chunk.end() - 1));
}

std::vector<widgets::Chip> trace_chips(DrawContext& context) {
  if (context.workspace.ready() == nullptr) return {};
  const trace::TraceInfo& info = context.workspace.info();
  std::vector<widgets::Chip> chips;
  chips.push_back({info.mode == trace::LoopMode::OpenLoop ? "dense run" : "closed-loop run", 0,
                   info.mode == trace::LoopMode::OpenLoop
                       ? "The model attended to everything while this trace was recorded."
                       : "The model attended only to what a method selected, so errors compound."});
  chips.push_back({info.dtype == trace::DType::F16 ? "stored f16, computed fp32" : "stored fp32", 0,
                   "Precision of the stored Q and K and of what is computed from them.",
                   info.dtype == trace::DType::F16 ? "f16" : "fp32"});
  if (!info.complete)
    chips.push_back({"incomplete trace", context.palette.warning,
                     "The capture ended early; the chunks done are shown."});
  return chips;
}

std::vector<widgets::Chip> method_chips(DrawContext& context, state::Slot slot) {
  std::vector<widgets::Chip> chips;
  const auto facts = context.workspace.facts(slot);
  if (!facts) return trace_chips(context);
  const widgets::Palette& p = context.palette;
  const bool recorded = facts->choice.run >= 0;
  chips.push_back({fmt::format("{}: {}", slot == state::Slot::A ? "A" : "B", facts->id), p.accent,
                   facts->choice.spec});
  if (is_extension(facts->choice.spec)) chips.push_back(extension_chip(p, facts->choice.spec));
  chips.push_back(
      {fmt::format("{}{}", words_of(facts->mode), recorded ? ", recorded" : ", re-selected"), 0,
       facts->mode == trace::LoopMode::ClosedLoop
           ? "The model attended only to this selection while it ran."
           : "Selected on the stored Q and K of the recorded run: an oracle simulation, "
             "the model itself did not attend to this selection.",
       words_of(facts->mode)});
  if (facts->source_mode == trace::LoopMode::ClosedLoop && facts->mode == trace::LoopMode::OpenLoop)
    chips.push_back({"on a closed-loop run", p.warning,
                     "The stored Q and K come from a run with sparse attention."});
  if (facts->prunes_lanes)
    chips.push_back({"prunes lanes", 0,
                     "Drops channels of the rotated dot product: see the view AQUA lanes.",
                     "lanes"});
  if (facts->basis || facts->leakage) chips.push_back(basis_chip(p, *facts));
  if (facts->source_layer)
    chips.push_back({fmt::format("reuses layer {}'s set", *facts->source_layer), 0,
                     "This layer scored nothing: the set was chosen in another layer.",
                     fmt::format("set of layer {}", *facts->source_layer)});
  const bool keeps_all = facts->prunes_lanes && !facts->evicts;
  if (!keeps_all && (facts->requested_budget || facts->effective_budget))
    chips.push_back(budget_chip(*facts));
  if (!facts->scope.empty())
    chips.push_back({fmt::format("scope {}", facts->scope), 0,
                     facts->scope == "past"
                         ? "Selected among the keys before the chunk; the chunk itself is visible."
                         : "Selected among all keys, the chunk's own included.",
                     facts->scope});
  chips.push_back(
      {context.workspace.info().dtype == trace::DType::F16 ? "stored f16, scored fp32" : "fp32", 0,
       "Precision of the stored Q and K and of the scores.",
       context.workspace.info().dtype == trace::DType::F16 ? "f16" : "fp32"});
  if (facts->ties_here > 0)
    chips.push_back(
        {fmt::format("{} tied at the cut", format_count(facts->ties_here)), 0,
         "Keys (pages, where the method keeps pages) left out of this chunk with the score "
         "of the last one kept; the earlier position wins.",
         fmt::format("{} ties", format_count(facts->ties_here))});
  if (facts->decode_dense && has_decode(context.workspace.info()))
    chips.push_back({"decode dense", 0,
                     "Decoded tokens attend to all keys left: the method acts in prefill only."});
  if (facts->dense_cells > 0) {
    const char* here = "";
    if (facts->dense_here) {
      switch (*facts->dense_here) {
        case trace::DenseReason::EmptyPast:
          here = "; this chunk: nothing before it";
          break;
        case trace::DenseReason::FitsBudget:
          here = "; this chunk: all fits the budget";
          break;
        case trace::DenseReason::MethodRule:
          here = "; this chunk: by the method's rule";
          break;
      }
    }
    chips.push_back(
        {fmt::format("dense in {} of {} chunks{}", facts->dense_cells,
                     facts->dense_cells + facts->cells, here),
         facts->dense_here ? p.warning : 0, "Chunks in which everything was kept.",
         fmt::format("dense {}/{}{}", facts->dense_cells, facts->dense_cells + facts->cells,
                     facts->dense_here ? ", here" : "")});
  }
  return chips;
}

bool trace_ready_ui(DrawContext& context) {
  const state::TraceTab* tab = context.workspace.active();
  if (tab == nullptr) {
    widgets::empty_ui(context.palette, "Open a trace: Ctrl+O, or drop a .h5 file on the window.");
    return false;
  }
  if (tab->state == state::ResultState::Loading) {
    widgets::loading_ui(context.palette, "Opening " + context.workspace.trace_name());
    return false;
  }
  if (tab->state == state::ResultState::Error) {
    widgets::error_ui(context.palette, tab->error);
    return false;
  }
  return true;
}

std::string token_line(const state::Workspace& workspace, std::int32_t position) {
  const state::TraceTab* tab = workspace.ready();
  if (tab == nullptr || position < 0 ||
      position >= static_cast<std::int32_t>(tab->token_label.size()))
    return fmt::format("{}", position);
  return fmt::format("{}  \u201C{}\u201D", format_count(position),
                     tab->token_label[static_cast<std::size_t>(position)]);
}

void span_marks_ui(DrawContext& context, bool lines) {
  const state::TraceTab* tab = context.workspace.ready();
  if (tab == nullptr) return;
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const ImVec2 origin = ImPlot::GetPlotPos();
  const ImVec2 size = ImPlot::GetPlotSize();
  const widgets::FontScope small(widgets::fonts().strong, 0.82F);
  float last_right = origin.x - 1;
  const auto mark = [&](std::int32_t begin, std::int32_t end, const std::string& name, ImU32 color,
                        bool line) {
    const float left = ImPlot::PlotToPixels(begin, 0).x;
    const float right = std::max(ImPlot::PlotToPixels(end, 0).x, left + 2);
    if (right < origin.x || left > origin.x + size.x) return;
    const float bar = widgets::em(0.28F);
    draw->AddRectFilled({std::max(left, origin.x), origin.y - bar},
                        {std::min(right, origin.x + size.x), origin.y}, color);
    if (line)
      for (const float x : {left, right})
        draw->AddLine({x, origin.y}, {x, origin.y + size.y}, widgets::with_alpha(color, 0.75F),
                      1.0F);
    const float width = ImGui::CalcTextSize(name.c_str()).x;
    const float middle =
        std::clamp((left + right) / 2, origin.x + width / 2, origin.x + size.x - width / 2);
    if (middle - width / 2 <= last_right) return;
    last_right = middle + width / 2 + widgets::em(0.5F);
    draw->AddText({middle - width / 2, origin.y - bar - ImGui::GetTextLineHeight()}, color,
                  name.c_str());
  };
  draw->PushClipRect({origin.x - 1, origin.y - widgets::em(2.0F)},
                     {origin.x + size.x + 1, origin.y + size.y}, true);
  std::vector<trace::TokenSpan> spans = tab->source->info().spans;
  std::stable_sort(spans.begin(), spans.end(),
                   [](const auto& a, const auto& b) { return a.begin < b.begin; });
  for (const trace::TokenSpan& span : spans) {
    if (span.name.rfind("role", 0) == 0) continue;  // the whole prompt: no landmark
    if (inside_another(span, spans)) continue;
    const bool needle = span.name.rfind("needle", 0) == 0;
    mark(span.begin, span.end, span.name, needle ? context.palette.text : context.palette.muted,
         lines && needle);
  }
  const auto& s = context.workspace.selection();
  if (s.has_keys()) mark(s.key_begin, s.key_end, "selected", context.palette.accent, lines);
  draw->PopClipRect();
}

}  // namespace kvloupe::panels
