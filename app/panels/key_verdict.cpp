// Why a method kept or lost the key, in a sentence, by stages, and by what would have kept it.
#include "app/panels/key_inspection.h"

#include "app/state/questions/explain_words.h"
#include "app/state/token_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::panels {
namespace {

using replay::Counterfactual;
using replay::Explanation;
using state::StageMark;
using Sign = StageMark::Sign;

ImU32 color_of(const widgets::Palette& palette, Sign sign) {
  switch (sign) {
    case Sign::Passed:
      return palette.good;
    case Sign::LostHere:
      return palette.miss;
    case Sign::WouldKeepToo:
      return palette.miss;
    case Sign::NotAsked:
      return palette.faint;
    case Sign::Looking:
      return palette.warning;
  }
  return palette.muted;
}

// A pill of one line: a sign, then words. Goes on in the next line where there is no room.
struct Pill {
  std::string text;
  ImU32 color;
  bool filled = false;  // the whole pill, not the sign alone
  bool hollow = false;  // a ring for the sign
};

ImVec2 size_of(const Pill& pill) {
  const ImVec2 text = ImGui::CalcTextSize(pill.text.c_str());
  return {text.x + widgets::em(1.9F), text.y + widgets::em(0.3F)};
}

void next_place(float width, bool first) {
  if (first) return;
  ImGui::SameLine(0, widgets::em(0.35F));
  if (ImGui::GetContentRegionAvail().x < width) ImGui::NewLine();
}

void draw_pill(const widgets::Palette& palette, const Pill& pill, ImVec2 at, ImVec2 size,
               bool hovered) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const ImVec2 end(at.x + size.x, at.y + size.y);
  const ImU32 back = pill.filled ? pill.color : widgets::mix(palette.panel, pill.color, 0.13);
  draw->AddRectFilled(at, end, back, size.y / 2);
  if (hovered) draw->AddRect(at, end, pill.color, size.y / 2, 0, widgets::em(0.09F));
  const ImU32 ink = pill.filled ? widgets::ink_on(pill.color) : pill.color;
  const ImVec2 sign(at.x + widgets::em(0.8F), at.y + size.y / 2);
  if (pill.hollow)
    draw->AddCircle(sign, widgets::em(0.24F), ink, 0, widgets::em(0.11F));
  else
    draw->AddCircleFilled(sign, widgets::em(0.27F), ink);
  draw->AddText({at.x + widgets::em(1.35F), at.y + widgets::em(0.15F)},
                pill.filled ? ink : palette.text, pill.text.c_str());
}

void label_ui(DrawContext& context, const char* text) {
  const widgets::FontScope small(widgets::fonts().body, 0.9F);
  widgets::text_colored(context.palette.muted, text);
}

void stages_ui(DrawContext& context, const state::ExplainNow& now) {
  const auto marks = state::stage_marks(now);
  if (marks.empty()) return;
  const widgets::FontScope small(widgets::fonts().body, 0.9F);
  bool first = true;
  for (const StageMark& mark : marks) {
    const bool quiet = mark.sign == Sign::NotAsked || mark.sign == Sign::Looking;
    std::string words = mark.words;
    if (mark.sign == Sign::LostHere && mark.stage != replay::Stage::Evicted)
      words = "lost at " + words;
    if (mark.sign == Sign::Looking) words += "\u2026";
    const Pill pill{words, color_of(context.palette, mark.sign), mark.sign == Sign::LostHere,
                    quiet || mark.sign == Sign::WouldKeepToo};
    const ImVec2 size = size_of(pill);
    next_place(size.x, first);
    first = false;
    const ImVec2 at = ImGui::GetCursorScreenPos();
    ImGui::Dummy(size);
    const bool hovered = !context.figure && ImGui::IsItemHovered();
    draw_pill(context.palette, pill, at, size, hovered);
    if (hovered)
      ImGui::SetTooltip("%s: %s%s%s", mark.words.c_str(), words_of(mark.sign),
                        mark.detail.empty() ? "" : "\n", mark.detail.c_str());
  }
}

// Sets method B, where a SPEC can say what was changed.
void what_if_ui(DrawContext& context, const KeyUnderMethod& key, const Counterfactual& what_if,
                std::size_t index, bool first) {
  const widgets::Palette& p = context.palette;
  const bool button = what_if.spec && !context.figure;
  Pill pill{what_if.change, what_if.kept ? p.hit : p.miss, false, !what_if.kept};
  if (button) pill.text += "  \u2192 B";
  const ImVec2 size = size_of(pill);
  next_place(size.x, first);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const auto& result = key.why.result;
  bool pressed = false;
  if (button)
    pressed = ImGui::InvisibleButton(fmt::format("###what if {}", index).c_str(), size);
  else
    ImGui::Dummy(size);
  const bool hovered = !context.figure && ImGui::IsItemHovered();
  draw_pill(p, pill, at, size, hovered && button);
  if (hovered)
    ImGui::SetTooltip("%s: the key is %s%s%s", what_if.change.c_str(),
                      what_if.kept ? "kept" : "lost", button ? "\nclick: method B becomes " : "",
                      button ? what_if.spec->canonical().c_str() : "");
  if (pressed && !result.stale)
    context.workspace.cursor.set_method(
        state::Slot::B, state::choice_of_spec(*what_if.spec, *result.question.place.trace));
}

void what_ifs_ui(DrawContext& context, const KeyUnderMethod& key) {
  const auto& all = key.why.result->counterfactuals;
  if (all.empty()) return;
  label_ui(context, context.figure
                        ? "Changed alone (filled: kept, ring: lost)"
                        : "Changed alone (filled: kept, ring: lost); a click makes it B");
  const widgets::FontScope small(widgets::fonts().body, 0.9F);
  for (std::size_t i = 0; i < all.size(); ++i) what_if_ui(context, key, all[i], i, i == 0);
}

void waiting_ui(DrawContext& context, const state::Result<state::ExplainQuestion>& result) {
  switch (result.state) {
    case state::ResultState::Error:
      widgets::text_wrapped(context.palette.error, result.error);
      if (!context.figure && ImGui::SmallButton("Try again"))
        context.workspace.answers.forget_failures();
      break;
    case state::ResultState::Empty:
      widgets::text_wrapped(context.palette.muted, result.note);
      break;
    default:
      widgets::text_wrapped(context.palette.muted, "Asking why it was kept or lost\u2026");
  }
}

void search_ui(DrawContext& context, const state::ExplainNow& now, bool& search) {
  if (context.figure) return;
  if (now.looking_for_budget) {
    if (ImGui::SmallButton("Stop looking###search")) search = false;
  } else if (now.may_look() && !now.result.stale) {
    if (ImGui::SmallButton("Look for the budget that keeps it###search")) search = true;
    if (ImGui::IsItemHovered())
      ImGui::SetTooltip(
          "A larger budget of %s need not keep what a smaller one does:\nall budgets are tried, "
          "which "
          "takes minutes in a long trace.",
          now.result.question.method.id().c_str());
  }
}

}  // namespace

void key_verdict_ui(DrawContext& context, const KeyUnderMethod& key, bool& search) {
  const auto& result = key.why.result;
  if (!result) {
    waiting_ui(context, result);
    return;
  }
  if (result.stale) widgets::stale_ui(context.palette);
  const Explanation& why = *result;
  const state::Place& place = result.question.place;
  {
    const widgets::FontScope strong(widgets::fonts().strong, 1.05F);
    widgets::text_wrapped(why.kept ? context.palette.text : context.palette.error,
                          state::cause_of(place, why));
  }
  std::string numbers = state::numbers_of(place, why);
  const std::string budget = state::budget_of(key.why);
  if (!budget.empty()) numbers += " " + budget;
  widgets::text_wrapped(context.palette.text, numbers);
  search_ui(context, key.why, search);
  if (result.question.method.recorded()) {
    const auto run = context.workspace.ask(state::RunQuestion{place, result.question.method});
    const std::string note = run ? state::disagreement(result.question, why, *run) : std::string();
    if (!note.empty()) widgets::text_wrapped(context.palette.warning, note);
  }
  ImGui::Dummy({0, widgets::em(0.1F)});
  stages_ui(context, key.why);
  what_ifs_ui(context, key);
}

}  // namespace kvloupe::panels
