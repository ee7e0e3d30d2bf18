#include "app/shell/bars/bar_pickers.h"

#include "app/state/number_chunks.h"
#include "app/state/span_choices.h"
#include "app/state/token_text.h"
#include "app/widgets/figure.h"
#include "core/base/units.h"
#include "core/replay/span_kept.h"

#include <fmt/format.h>
#include <misc/cpp/imgui_stdlib.h>

namespace kvloupe::shell {
namespace {

using state::NumberScope;
using Kind = state::NumberScope::Kind;

constexpr ImGuiComboFlags kList = ImGuiComboFlags_HeightLarge;

std::string positions_of(const trace::KeySet& keys) {
  const std::string first = format_count(keys.first()), last = format_count(keys.bound() - 1);
  if (keys.ranges().size() > 1)
    return fmt::format("{} keys between {} and {}", format_count(keys.size()), first, last);
  return keys.size() == 1 ? first : fmt::format("{} to {}", first, last);
}

// "numbers: from the question on"; of what is not chosen, that each view has its own.
std::string words_of_scope(const NumberScope& scope, const state::Place& place) {
  if (scope.kind == Kind::Own) return "each view's own";
  return brief_of(number_chunks(scope, place, Kind::All), place.info());
}

// First and last chunk, drawn from what numbers are over now.
void range_ui(state::Workspace& workspace, const state::Place& place, const NumberScope& scope) {
  const int last = static_cast<int>(place.info().chunks.size()) - 1;
  const auto over = number_chunks(scope, place, Kind::All).range;
  NumberScope range{Kind::Range, over ? over->first : 0, over ? over->last : last};
  ImGui::SetNextItemWidth(widgets::em(15));
  if (ImGui::DragIntRange2("##range", &range.first, &range.last, 0.1F, 0, last, "chunks %d",
                           "to %d", ImGuiSliderFlags_AlwaysClamp))
    workspace.cursor.set_numbers(range);
  if (is_explained()) widgets::tooltip("A range of chunks: drag, or Ctrl+click to type");
}

}  // namespace

bool choice_ui(const std::string& name, bool chosen) {
  const bool pressed = ImGui::Selectable(name.c_str(), chosen);
  if (chosen) ImGui::SetItemDefaultFocus();
  return pressed;
}

bool is_explained() { return ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled); }

void SpanPicker::draw(state::Workspace& workspace, const widgets::Palette& palette, float width) {
  const state::Place& place = workspace.place();
  const auto span = state::watched_keys(place);
  const std::string name = span ? state::readable_name(span->name) : "none";
  ImGui::SetNextItemWidth(width);
  const std::string preview =
      widgets::elided("span: " + name, width - ImGui::GetFrameHeight() - widgets::em(1));
  const bool open = ImGui::BeginCombo("##span", preview.c_str(), kList);
  if (!open && is_explained()) {
    if (span)
      widgets::tooltip(
          "The keys that every view follows: %s, %s\n\u201C%s\u201D", name.c_str(),
          positions_of(span->keys).c_str(),
          widgets::elided(text_of_keys(*place.trace, span->keys), widgets::em(40)).c_str());
    else
      widgets::tooltip("The keys that every view follows: none");
  }
  if (!open) {
    found_ = true;
    return;
  }
  widgets::escape_closes_popup();
  search_ui(workspace, palette);
  choices_ui(workspace, palette);
  ImGui::EndCombo();
}

void SpanPicker::choices_ui(state::Workspace& workspace, const widgets::Palette& palette) {
  const state::Place place = workspace.place();
  const auto span = state::watched_keys(place);
  bool listed = false;
  for (const state::SpanChoice& choice : state::span_choices(*place.trace)) {
    const trace::KeySet keys(choice.span.begin, choice.span.end);
    const bool here = span && span->keys == keys;
    listed |= here;
    ImGui::PushID(choice.span.begin);
    ImGui::PushID(choice.span.end);
    if (choice_ui(choice.name, here)) workspace.cursor.set_keys(keys);
    ImGui::SameLine(0, widgets::em(0.8F));
    widgets::text_colored(
        palette.muted,
        fmt::format("{}  \u201C{}\u201D", positions_of(keys),
                    widgets::elided(text_of_keys(*place.trace, keys), widgets::em(16))));
    ImGui::PopID();
    ImGui::PopID();
  }
  if (span && !listed) choice_ui(span->name, true);
  if (choice_ui("none", place.watches_nothing)) workspace.cursor.watch_nothing();
}

void SpanPicker::search_ui(state::Workspace& workspace, const widgets::Palette& palette) {
  ImGui::SetNextItemWidth(widgets::em(22));
  const bool entered =
      ImGui::InputTextWithHint("##find span", "Find text; Enter follows the next match", &search_,
                               ImGuiInputTextFlags_EnterReturnsTrue);
  if (entered && !search_.empty()) {
    const state::Place& place = workspace.place();
    const auto here = state::watched_keys(place);
    const auto match = state::find_span(place.trace->session->token_texts(), search_,
                                        here ? here->keys.first() + 1 : 0);
    found_ = match.has_value();
    if (match) workspace.cursor.set_keys(match->begin, match->end);
    ImGui::SetKeyboardFocusHere(-1);
  }
  if (!found_) widgets::text_colored(palette.warning, "The trace does not hold this text.");
  ImGui::Separator();
}

void numbers_picker_ui(state::Workspace& workspace, const widgets::Palette& palette, float width) {
  const state::Place place = workspace.place();
  const NumberScope scope = workspace.selection().numbers;
  ImGui::SetNextItemWidth(width);
  const std::string preview = widgets::elided("numbers: " + words_of_scope(scope, place),
                                              width - ImGui::GetFrameHeight() - widgets::em(1));
  const state::NumberChunks over = number_chunks(scope, place, Kind::All);
  const std::string chunks = state::words_of(over, place.info());
  // The place has left the chunks that numbers are over: what they say is not of the chunk shown.
  const bool elsewhere = !over.has(place.chunk);
  if (elsewhere) ImGui::PushStyleColor(ImGuiCol_Text, palette.warning);
  const bool open = ImGui::BeginCombo("##numbers", preview.c_str(), kList);
  if (elsewhere) ImGui::PopStyleColor();
  if (!open && is_explained()) {
    if (elsewhere)
      widgets::tooltip(
          "Maps and lists show %s; numbers stay with %s.\nChoose *this chunk* for "
          "numbers that follow the slider.",
          state::chunk_name(place.info(), place.chunk).c_str(), chunks.c_str());
    else
      widgets::tooltip(
          "The chunks that numbers are over, in the overview, runs, KV map, compare, sweep and "
          "worst "
          "misses: %s.\nA mean over chunks in which nobody asks for a key hides what is left when "
          "somebody "
          "does.",
          scope.kind == Kind::Own ? "each view's own" : chunks.c_str());
  }
  if (!open) return;
  for (const Kind kind : {Kind::Question, Kind::Chunk, Kind::All, Kind::Own}) {
    const bool possible = kind != Kind::Question || replay::question_of(place.info()) != nullptr;
    const NumberScope choice{kind};
    const std::string words =
        kind == Kind::Own ? "each view's own"
        : kind == Kind::Question
            ? (possible ? words_of(number_chunks(choice, place, Kind::All), place.info())
                        : "from the question on")
        : kind == Kind::Chunk ? fmt::format("this chunk ({})", place.chunk)
                              : "all chunks";
    ImGui::BeginDisabled(!possible);
    if (choice_ui(words, scope.kind == kind)) workspace.cursor.set_numbers(choice);
    ImGui::EndDisabled();
    if (!possible && is_explained())
      widgets::tooltip("The trace has no span called question, or ends before it.");
    if (kind == Kind::Own && is_explained())
      widgets::tooltip("The overview: this chunk. Runs, compare and sweep: all chunks.");
  }
  range_ui(workspace, place, scope);
  ImGui::EndCombo();
}

}  // namespace kvloupe::shell
