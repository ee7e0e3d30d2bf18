// See view_frame.h.
#include "app/panels/view_frame.h"

#include "app/state/labels.h"
#include "app/state/method_groups.h"
#include "app/state/run_names.h"
#include "app/state/span_choices.h"
#include "app/state/token_text.h"
#include "app/widgets/key_names.h"
#include "core/base/error.h"
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
    return state::is_landmark(span) && span.begin <= part.begin && part.end <= span.end &&
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
          "basis " + facts.basis->source};
}

// Grows with the past: what is asked for differs from chunk to chunk.
bool budget_is_a_share(const state::MethodFacts& facts) {
  if (!facts.choice.known()) return false;
  const selection::MethodSpec& spec = *facts.choice.spec;
  return spec.traits().cache_share > 0 || spec.budget_ratio() > 0;
}

widgets::Chip budget_chip(const state::MethodFacts& facts) {
  if (!facts.requested_budget && facts.effective_budget)
    return {fmt::format(
                "{} kept{}, {}", number(*facts.effective_budget),
                facts.forced > 0 ? fmt::format(", {} of them by rule", number(facts.forced)) : "",
                format_bytes(facts.bytes)),
            0,
            fmt::format("The method has no budget. Kept is the mean number over the chunks that "
                        "selected, for this row. They take {} of K and V as stored.",
                        format_bytes(facts.bytes)),
            "mean " + number(*facts.effective_budget) + " kept"};
  std::string brief = facts.requested_budget ? number(*facts.requested_budget) : "none";
  std::string text = (budget_is_a_share(facts) ? "mean budget " : "budget ") + brief;
  if (facts.effective_budget) {
    brief += fmt::format(" \u2192 {} kept", number(*facts.effective_budget));
    text += fmt::format(" \u2192 {} kept", number(*facts.effective_budget));
    if (facts.forced > 0) text += fmt::format(", {} of them by rule", number(facts.forced));
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

std::string method_caption(const DrawContext& context, const state::MethodFacts& facts) {
  // On paper what differs from the method's defaults: all of it takes lines that the plots lack.
  const bool in_short = context.least_plot > 0 && facts.choice.known();
  return state::readable_name(in_short ? replay::short_name(*facts.choice.spec)
                                       : facts.choice.text) +
         (facts.leakage ? "  (leakage: basis fitted on this text)" : "");
}

std::string method_note(const state::Place& place, const state::MethodFacts& facts) {
  const std::string id = facts.choice.id();
  if (facts.choice.brought_in()) return "";
  if (!facts.choice.known())
    return fmt::format(
        "This version does not know the method {}: what was recorded is shown, and it cannot be "
        "selected anew.",
        id);
  if (facts.keeps_every_key())
    return fmt::format(
        "{} drops lanes of the dot product, not keys: every key is kept. The view "
        "AQUA lanes shows what it cuts.",
        id);
  if (facts.source_layer)
    return fmt::format("Layer {} reuses layer {}'s set; it scored nothing here.", place.layer,
                       *facts.source_layer);
  if (facts.at(place.chunk).dense == trace::DenseReason::MethodRule && id != "dense")
    return fmt::format("Layer {} is dense by {}'s rule: everything is kept.", place.layer, id);
  if (facts.prunes_lanes)
    return fmt::format("{} also drops lanes of the dot product: see the view AQUA lanes.", id);
  if (facts.choice.spec->traits().native_masks)
    return fmt::format(
        "{} reads native masks: kept are the keys that any query block of the query head reads; "
        "recall, gap and output error count what each reads itself.",
        id);
  return {};
}

void method_note_ui(DrawContext& context, const state::Place& place,
                    const state::MethodFacts& facts) {
  const std::string note = method_note(place, facts);
  if (!note.empty()) widgets::text_wrapped(context.palette.warning, note);
}

void method_head_ui(DrawContext& context, const std::string& title, const state::Place& place,
                    const state::MethodFacts& facts, state::Slot slot) {
  widgets::figure_head_ui(context.palette, context.figure, title, method_caption(context, facts),
                          place_caption(place), method_chips(context, place, facts, slot));
}

std::vector<widgets::Chip> stand_in_chips(DrawContext& context, const state::Place& place,
                                          const state::MethodFacts& facts,
                                          const std::string& stand_in) {
  auto chips = method_chips(context, place, facts, context.workspace.selection().shown);
  if (stand_in.empty()) return chips;
  const std::string id = state::readable_name(facts.choice.id());
  chips.front() = {id, 0, state::readable_name(facts.choice.text), id};
  return chips;
}

void stand_in_head_ui(DrawContext& context, const std::string& title, const state::Place& place,
                      const state::MethodFacts& facts, const std::string& stand_in,
                      const std::vector<widgets::Chip>& more) {
  auto chips = stand_in_chips(context, place, facts, stand_in);
  chips.insert(chips.begin() + 1, more.begin(), more.end());
  widgets::figure_head_ui(context.palette, context.figure, title, method_caption(context, facts),
                          place_caption(place), chips);
  if (stand_in.empty()) return;
  widgets::text_wrapped(context.palette.warning, stand_in);
  if (!context.figure) context.workspace.explained.set(facts.choice);
}

void heading_ui(DrawContext& context, const std::string& title, const std::string& measured) {
  {
    const widgets::FontScope strong(widgets::Type::Strong);
    widgets::text_colored(context.palette.text, title);
  }
  ImGui::SameLine(0, widgets::em(0.7F));
  const widgets::FontScope small(widgets::Type::Caption);
  widgets::text_colored(context.palette.muted,
                        widgets::elided(measured, ImGui::GetContentRegionAvail().x));
}

void headline_ui(DrawContext& context, const std::string& sentence) {
  const widgets::FontScope strong(widgets::Type::Strong);
  widgets::text_wrapped(context.palette.text, sentence);
}

void letter_ui(DrawContext& context, state::Slot slot) {
  const widgets::FontScope strong(widgets::Type::Strong);
  widgets::text_colored(widgets::color_of_slot(context.palette, slot),
                        std::string(1, state::letter_of(slot)));
}

void beside_ui(float gap, float width) {
  ImGui::SameLine(0, gap);
  if (ImGui::GetContentRegionAvail().x < width) ImGui::NewLine();
}

float least_plot_height() { return widgets::em(8); }

ImGuiWindowFlags child_flags(const DrawContext& context) {
  return context.figure ? ImGuiWindowFlags_NoScrollbar : ImGuiWindowFlags_None;
}

float plot_height(const DrawContext& context, float room) {
  return std::max(room, context.figure ? context.least_plot : least_plot_height());
}

namespace {

constexpr float kLabelGap = 0.4F;

float width_of_label(const std::string& label) {
  return label.empty() ? 0 : ImGui::CalcTextSize(label.c_str()).x + widgets::em(kLabelGap);
}

}  // namespace

void option_ui(DrawContext& context, const std::string& view, const std::string& option,
               const std::string& label, float width) {
  if (context.figure) return;
  if (!label.empty()) {
    ImGui::AlignTextToFramePadding();
    widgets::text_colored(context.palette.muted, label);
    ImGui::SameLine(0, widgets::em(kLabelGap));
  }
  const state::ViewInfo* info = state::find_view(view);
  KVLOUPE_CHECK(info != nullptr);
  const std::string now = context.workspace.option(view, option);
  ImGui::SetNextItemWidth(width);
  for (const state::ViewOption& offered : info->options) {
    if (offered.name != option) continue;
    const bool open = ImGui::BeginCombo(("##" + option).c_str(), offered.words_of(now).c_str());
    if (ImGui::IsItemHovered()) widgets::tooltip("%s", offered.meaning.c_str());
    if (!open) continue;
    for (const std::string& choice : offered.choices)
      if (ImGui::Selectable(offered.words_of(choice).c_str(), choice == now))
        context.workspace.choose(view, option, choice);
    ImGui::EndCombo();
  }
}

void option_beside_ui(DrawContext& context, const std::string& view, const std::string& option,
                      const std::string& label, float width) {
  if (context.figure) return;
  beside_ui(widgets::em(1), width_of_label(label) + width);
  option_ui(context, view, option, label, width);
}

std::vector<widgets::Chip> extension_chips(const widgets::Palette& palette,
                                           const state::MethodChoice& method) {
  if (!method.known()) return {};
  const std::string title = selection::title_of(*method.spec);
  if (!title.ends_with("(extension)")) return {};
  return {{title, palette.warning, "This form of the method is not in its paper.", "extension"}};
}

std::string place_caption(const state::Place& place) {
  if (place.empty()) return {};
  const trace::ChunkInfo& chunk = place.chunk_info();
  const std::string tokens = chunk.phase == trace::Phase::Decode
                                 ? fmt::format("token {}", format_count(chunk.begin))
                                 : state::range_words("token", "tokens", chunk.begin, chunk.end());
  return fmt::format(
      "{}  \u00B7  {}  \u00B7  layer {}  \u00B7  query head {} (KV head {})  \u00B7  {}: {}",
      place.trace->name, state::readable_name(place.info().model.name), place.layer, place.q_head,
      place.kv_head(), chunk_name(place.info(), place.chunk), tokens);
}

namespace {

// Where the attention of the place's layer is not plain and full.
void add_layer_chip(const state::Place& place, std::vector<widgets::Chip>& chips) {
  const trace::ModelInfo& model = place.info().model;
  const std::string label = state::label_of_layer(model, place.layer);
  if (label.empty()) return;
  const std::int64_t window = model.softmax_of(place.layer).window;
  chips.push_back(
      {label, 0,
       window > 0
           ? fmt::format("In layer {} a query sees {} keys, its own included: older ones are "
                         "no candidates, and budgets count without them.",
                         place.layer, format_count(window))
           : fmt::format("How layer {} attends.", place.layer)});
}

}  // namespace

std::vector<widgets::Chip> trace_chips(DrawContext& context, const state::Place& place) {
  if (place.empty()) return {};
  const trace::TraceInfo& info = place.info();
  std::vector<widgets::Chip> chips;
  chips.push_back({info.mode == trace::LoopMode::OpenLoop ? "dense run" : "closed-loop run", 0,
                   info.mode == trace::LoopMode::OpenLoop
                       ? "The model attended to everything while this trace was recorded."
                       : "The model attended only to what a method selected, so errors compound."});
  chips.push_back({info.dtype == trace::DType::F16 ? "stored f16, computed fp32" : "stored fp32", 0,
                   "Precision of the stored Q and K and of what is computed from them.",
                   info.dtype == trace::DType::F16 ? "f16" : "fp32"});
  add_layer_chip(place, chips);
  if (!info.complete)
    chips.push_back({"incomplete trace", context.palette.warning,
                     "The capture ended early; the chunks done are shown."});
  if (!info.query_offsets.empty())
    chips.push_back(
        {fmt::format("queries of {} of {} chunks", info.chunks_with_queries().size(),
                     info.chunks.size()),
         0,
         fmt::format("The trace has those of {}: what is computed from queries is of these.",
                     trace::text_of_query_chunks(info))});
  return chips;
}

std::vector<widgets::Chip> method_chips(DrawContext& context, const state::Place& place,
                                        const state::MethodFacts& facts, state::Slot slot) {
  if (facts.choice.empty()) return trace_chips(context, place);
  std::vector<widgets::Chip> chips;
  const widgets::Palette& p = context.palette;
  const bool recorded = facts.choice.recorded();
  // What the card in the bar says is said once; a figure has no bar.
  const bool on_card = !context.figure && facts.choice == context.workspace.method(slot) &&
                       place.trace == context.workspace.place().trace;
  const bool named = !state::own_name(context.workspace, facts.choice).empty();
  const std::string name = fmt::format("{}: {}", state::letter_of(slot),
                                       named ? state::label_of(context.workspace, facts.choice)
                                             : state::readable_name(facts.choice.id()));
  const std::string own =
      named ? std::string()
            : state::distinct_params(facts.choice, context.workspace.method(other_than(slot)));
  chips.push_back({own.empty() ? name : name + ", " + own, widgets::color_of_slot(p, slot),
                   state::readable_name(facts.choice.text)});
  for (widgets::Chip& chip : extension_chips(p, facts.choice)) chips.push_back(std::move(chip));
  if (facts.choice.brought_in())
    chips.push_back({"brought in", 0,
                     "A method of your own or of another program. What it kept is shown and "
                     "measured; it cannot be selected anew here."});
  else if (!facts.choice.known())
    chips.push_back({"unknown method", p.warning,
                     "This version does not know the method; what was recorded is shown."});
  if (!on_card)
    chips.push_back(
        {fmt::format("{}{}", words_of(facts.mode), recorded ? ", recorded" : ", re-selected"), 0,
         facts.mode == trace::LoopMode::ClosedLoop
             ? "The model attended only to this selection while it ran."
             : "Selected on the stored Q and K of the recorded run: an oracle simulation, "
               "the model itself did not attend to this selection.",
         words_of(facts.mode)});
  if (facts.source_mode == trace::LoopMode::ClosedLoop && facts.mode == trace::LoopMode::OpenLoop)
    chips.push_back({"on a closed-loop run", p.warning,
                     "The stored Q and K come from a run with sparse attention."});
  if (facts.prunes_lanes)
    chips.push_back({"prunes lanes", 0,
                     "Drops channels of the rotated dot product: see the view AQUA lanes.",
                     "lanes"});
  if (facts.basis || facts.leakage) chips.push_back(basis_chip(p, facts));
  if (facts.source_layer)
    chips.push_back({fmt::format("reuses layer {}'s set", *facts.source_layer), 0,
                     "This layer scored nothing: the set was chosen in another layer.",
                     fmt::format("set of layer {}", *facts.source_layer)});
  if (!on_card && !facts.keeps_every_key() && (facts.requested_budget || facts.effective_budget))
    chips.push_back(budget_chip(facts));
  if (!on_card && !facts.scope.empty())
    chips.push_back({fmt::format("scope {}", facts.scope), 0,
                     facts.scope == "past"
                         ? "Selected among the keys before the chunk; the chunk itself is visible."
                         : "Selected among all keys, the chunk's own included.",
                     facts.scope});
  if (!on_card)
    chips.push_back({place.info().dtype == trace::DType::F16 ? "stored f16, scored fp32" : "fp32",
                     0, "Precision of the stored Q and K and of the scores.",
                     place.info().dtype == trace::DType::F16 ? "f16" : "fp32"});
  add_layer_chip(place, chips);
  const state::MethodFacts::Chunk here = facts.at(place.chunk);
  if (here.ties > 0)
    chips.push_back(
        {fmt::format("{} tied at the cut", format_count(here.ties)), 0,
         "Keys (pages, where the method keeps pages) left out of this chunk with the score "
         "of the last one kept; the earlier position wins.",
         fmt::format("{} tie{}", format_count(here.ties), here.ties == 1 ? "" : "s")});
  if (facts.decode_dense && has_decode(place.info()))
    chips.push_back({"decode dense", 0,
                     "Decoded tokens attend to all keys left: the method acts in prefill only."});
  if (facts.dense_cells > 0 && (!on_card || here.dense)) {
    const char* why = "";
    if (here.dense) {
      switch (*here.dense) {
        case trace::DenseReason::EmptyPast: why = "; this chunk: nothing before it"; break;
        case trace::DenseReason::FitsBudget: why = "; this chunk: all fits the budget"; break;
        case trace::DenseReason::MethodRule: why = "; this chunk: by the method's rule"; break;
      }
    }
    chips.push_back({fmt::format("dense in {} of {} chunks{}", facts.dense_cells,
                                 facts.dense_cells + facts.cells, why),
                     here.dense ? p.warning : 0, "Chunks in which everything was kept.",
                     fmt::format("dense {}/{}{}", facts.dense_cells,
                                 facts.dense_cells + facts.cells, here.dense ? ", here" : "")});
  }
  return chips;
}

void failure_ui(DrawContext& context, const std::string& error) {
  if (context.figure)
    widgets::error_ui(context.palette, error);
  else if (widgets::failed_ui(context.palette, error))
    context.workspace.answers.forget_failures();
}

bool trace_ready_ui(DrawContext& context) {
  const state::TraceTab* tab = context.workspace.traces.active();
  if (tab == nullptr) {
    const std::string key = widgets::key_name("open");
    widgets::empty_ui(context.palette,
                      "Open a trace: " + (key.empty() ? std::string("File, Open a trace") : key) +
                          ", or drop a .h5 file on the window.");
    return false;
  }
  if (tab->state == state::ResultState::Loading) {
    widgets::loading_ui(context.palette, "Opening " + tab->name);
    return false;
  }
  if (tab->state == state::ResultState::Error) {
    widgets::error_ui(context.palette, tab->error);
    return false;
  }
  return true;
}

std::string token_line(const state::Place& place, std::int32_t position) {
  if (place.empty() || position < 0 ||
      position >= static_cast<std::int32_t>(place.trace->token_label.size()))
    return fmt::format("{}", position);
  return fmt::format("{}  \u201C{}\u201D", format_count(position),
                     place.trace->token_label[static_cast<std::size_t>(position)]);
}

namespace {

constexpr std::size_t kMostEdged = 24;  // lines of more ranges would hide what is beside them

// Beside the columns of a narrow span, not over them, and fainter.
void edges_ui(ImU32 color, float left, float right, float faint = 0.4F) {
  const ImVec2 origin = ImPlot::GetPlotPos(), size = ImPlot::GetPlotSize();
  const bool narrow = right - left < widgets::em(1.5F);
  const float out = narrow ? 1.5F : 0;
  for (const float x : {left - out, right + out})
    ImPlot::GetPlotDrawList()->AddLine({x, origin.y}, {x, origin.y + size.y},
                                       widgets::with_alpha(color, narrow ? faint : 0.75F), 1.0F);
}

}  // namespace

void span_edges_ui(DrawContext& context, const state::Place& place) {
  const auto span = state::watched_keys(place);
  if (!span) return;
  if (span->keys.ranges().size() > kMostEdged) return;
  ImPlot::PushPlotClipRect();
  for (const trace::TokenRange& range : span->keys.ranges())
    edges_ui(context.palette.text, ImPlot::PlotToPixels(range.begin, 0).x,
             ImPlot::PlotToPixels(range.end, 0).x, 0.9F);
  ImPlot::PopPlotClipRect();
}

void span_marks_ui(DrawContext& context, const state::Place& place, bool lines,
                   double tokens_per_column) {
  if (place.empty()) return;
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const ImVec2 origin = ImPlot::GetPlotPos();
  const ImVec2 size = ImPlot::GetPlotSize();
  const widgets::FontScope small(widgets::Type::Caption);
  std::vector<std::pair<float, float>> labels;  // left and right of those written
  const auto mark = [&](std::int32_t begin, std::int32_t end, const std::string& name, ImU32 color,
                        bool line) {
    const float left = ImPlot::PlotToPixels(begin / tokens_per_column, 0).x;
    const float right = std::max(ImPlot::PlotToPixels(end / tokens_per_column, 0).x, left + 2);
    if (right < origin.x || left > origin.x + size.x) return;
    const float bar = widgets::em(0.28F);
    draw->AddRectFilled({std::max(left, origin.x), origin.y - bar},
                        {std::min(right, origin.x + size.x), origin.y}, color);
    if (line) edges_ui(color, left, right);
    const float width = ImGui::CalcTextSize(name.c_str()).x;
    if (name.empty() || width > size.x) return;
    const float middle =
        std::clamp((left + right) / 2, origin.x + width / 2, origin.x + size.x - width / 2);
    const std::pair label{middle - width / 2, middle + width / 2};
    const auto overlaps = [&, gap = widgets::em(0.5F)](const std::pair<float, float>& other) {
      return label.first < other.second + gap && other.first < label.second + gap;
    };
    if (std::any_of(labels.begin(), labels.end(), overlaps)) return;
    labels.push_back(label);
    draw->AddText({middle - width / 2, origin.y - bar - ImGui::GetTextLineHeight()}, color,
                  name.c_str());
  };
  draw->PushClipRect({origin.x - 1, origin.y - widgets::em(2.0F)},
                     {origin.x + size.x + 1, origin.y + size.y}, true);
  std::vector<trace::TokenSpan> spans = place.info().spans;
  std::stable_sort(spans.begin(), spans.end(),
                   [](const auto& a, const auto& b) { return a.begin < b.begin; });
  for (const trace::TokenSpan& span : spans) {
    if (!state::is_landmark(span)) continue;
    if (inside_another(span, spans)) continue;
    const bool needle = span.name.rfind("needle", 0) == 0;
    mark(span.begin, span.end, state::readable_name(span.name),
         needle ? context.palette.text : context.palette.muted, lines && needle);
  }
  const auto& chosen = place.keys.ranges();
  for (const std::size_t named = labels.size(); const auto& [begin, end] : chosen)  // the name once
    mark(begin, end, labels.size() == named ? "watched" : "", context.palette.text,
         lines && chosen.size() <= kMostEdged);
  draw->PopClipRect();
}

}  // namespace kvloupe::panels
