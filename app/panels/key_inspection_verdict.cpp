// Why a method kept or lost the key, in a sentence, by stages, and by what would have kept it.
#include "app/panels/key_inspection.h"

#include "app/state/questions/why_lost/explain_words.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <array>
#include <cctype>

namespace kvloupe::panels {
namespace {

using replay::Counterfactual;
using replay::Explanation;
using state::StageMark;
using Sign = StageMark::Sign;

ImU32 color_of(const widgets::Palette& palette, Sign sign) {
  switch (sign) {
    case Sign::Passed: return palette.good;
    case Sign::LostHere: return palette.miss;
    case Sign::WouldKeepToo: return palette.miss;
    case Sign::NotAsked: return palette.faint;
    case Sign::Looking: return palette.warning;
  }
  return palette.muted;
}

// A pill of one line: a sign, then words. Goes on in the next line where there is no room.
struct Pill {
  std::string text;
  ImU32 color;
  bool filled = false;  // the whole pill
  enum class Mark { Check, Cross, Ring } mark = Mark::Check;
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

void draw_mark(ImDrawList* draw, Pill::Mark mark, ImVec2 at, ImU32 ink) {
  const float r = widgets::em(0.26F), line = widgets::em(0.13F);
  if (mark == Pill::Mark::Ring) return draw->AddCircle(at, r, ink, 0, line);
  if (mark == Pill::Mark::Check) {
    const std::array corners{ImVec2(at.x - r, at.y), ImVec2(at.x - 0.3F * r, at.y + 0.75F * r),
                             ImVec2(at.x + 1.1F * r, at.y - 0.9F * r)};
    return draw->AddPolyline(corners.data(), static_cast<int>(corners.size()), ink, 0, line);
  }
  draw->AddLine({at.x - r, at.y - r}, {at.x + r, at.y + r}, ink, line);
  draw->AddLine({at.x - r, at.y + r}, {at.x + r, at.y - r}, ink, line);
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
  draw_mark(draw, pill.mark, sign, ink);
  draw->AddText({at.x + widgets::em(1.35F), at.y + widgets::em(0.15F)},
                pill.filled ? ink : palette.text, pill.text.c_str());
}

// Before the pills, on their line where there is room for some.
void label_ui(DrawContext& context, const char* text) {
  const widgets::FontScope small(widgets::Type::Caption);
  widgets::text_colored(context.palette.muted, text);
  ImGui::SameLine(0, widgets::em(0.7F));
  if (ImGui::GetContentRegionAvail().x < widgets::em(16)) ImGui::NewLine();
}

void stages_ui(DrawContext& context, const state::ExplainNow& now) {
  const auto marks = state::stage_marks(now);
  if (marks.empty()) return;
  label_ui(context,
           context.figure
               ? "Stages: \u2717 lost it, \u2713 did not, \u25CB changed alone would keep it too"
               : "Stages");
  const widgets::FontScope small(widgets::Type::Caption);
  bool first = true;
  for (const StageMark& mark : marks) {
    const bool quiet = mark.sign == Sign::NotAsked || mark.sign == Sign::Looking;
    std::string words = mark.words;
    if (mark.sign == Sign::LostHere && mark.stage != replay::Stage::Evicted)
      words = "lost at " + words;
    if (mark.sign == Sign::Looking) words += "\u2026";
    const Pill pill{words, color_of(context.palette, mark.sign), mark.sign == Sign::LostHere,
                    mark.sign == Sign::LostHere                ? Pill::Mark::Cross
                    : quiet || mark.sign == Sign::WouldKeepToo ? Pill::Mark::Ring
                                                               : Pill::Mark::Check};
    const ImVec2 size = size_of(pill);
    next_place(size.x, first);
    first = false;
    const ImVec2 at = ImGui::GetCursorScreenPos();
    ImGui::Dummy(size);
    const bool hovered = !context.figure && ImGui::IsItemHovered();
    draw_pill(context.palette, pill, at, size, hovered);
    if (hovered)
      widgets::tooltip("%s: %s%s%s", mark.words.c_str(), words_of(mark.sign),
                       mark.detail.empty() ? "" : "\n", mark.detail.c_str());
  }
}

// Sets method B, where a SPEC can say what was changed.
void what_if_ui(DrawContext& context, const KeyUnderMethod& key, const Counterfactual& what_if,
                std::size_t index, bool first) {
  const widgets::Palette& p = context.palette;
  const bool button = what_if.spec && !context.figure;
  Pill pill{what_if.change, what_if.kept ? p.hit : p.miss, false,
            what_if.kept ? Pill::Mark::Check : Pill::Mark::Cross};
  if (button) pill.text += ", as B";
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
    widgets::tooltip("%s: the key is %s%s%s", what_if.change.c_str(),
                     what_if.kept ? "kept" : "lost", button ? "\nclick: method B becomes " : "",
                     button ? what_if.spec->canonical().c_str() : "");
  if (pressed && !result.stale)
    context.workspace.cursor.set_method(
        state::Slot::B, state::choice_of_spec(*what_if.spec, *result.question.place.trace));
}

// What was tried of the key, and the budget that keeps all of its span.
std::vector<Counterfactual> what_ifs_of(const KeyUnderMethod& key) {
  std::vector<Counterfactual> all = key.why.result->counterfactuals;
  if (key.span_budget && key.span_budget->budget) {
    const std::string budget = fmt::format("{}", *key.span_budget->budget);
    all.push_back({key.span_budget.question.method.spec->with({{"budget_tokens", budget}}),
                   fmt::format("a budget of {} for all of the span", budget), true});
  }
  return all;
}

void what_ifs_ui(DrawContext& context, const KeyUnderMethod& key) {
  const std::vector<Counterfactual> all = what_ifs_of(key);
  if (all.empty()) return;
  label_ui(context, key.why.result->kept ? "Would it still be kept after one change?"
                                         : "Would one change keep it?");
  const widgets::FontScope small(widgets::Type::Caption);
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
    default: widgets::text_wrapped(context.palette.muted, "Asking why it was kept or lost\u2026");
  }
}

std::string token_of(const state::Place& place, std::int32_t position) {
  return fmt::format("\u201C{}\u201D",
                     place.trace->token_label[static_cast<std::size_t>(position)]);
}

void search_button_ui(const std::string& what, const std::string& method, bool& search) {
  if (ImGui::SmallButton(fmt::format("Look for the budget that keeps {}###search", what).c_str()))
    search = true;
  if (ImGui::IsItemHovered())
    widgets::tooltip(
        "A larger budget of %s need not keep what a smaller one does:\nall budgets are tried, "
        "which "
        "takes minutes in a long trace.",
        method.c_str());
}

// Of the key alone.
void search_ui(DrawContext& context, const state::ExplainNow& now, bool& search) {
  if (context.figure) return;
  const state::ExplainQuestion& question = now.result.question;
  if (now.looking_for_budget) {
    if (ImGui::SmallButton("Stop looking###search")) search = false;
  } else if (now.may_look() && !now.result.stale) {
    search_button_ui(token_of(question.place, question.position), question.method.id(), search);
  }
}

// Of all keys of a span, while their budget is not known.
void span_search_ui(DrawContext& context, const KeyUnderMethod& key, bool& search) {
  const auto& result = key.span_budget;
  const state::SpanBudgetQuestion& question = result.question;
  if (question.place.empty() || result || key.why.result->dense_reason) return;
  const std::string what = state::all_keys_words(question.place);
  if (result.state == state::ResultState::Error)
    widgets::text_wrapped(context.palette.error, result.error);
  else if (result.state == state::ResultState::Loading)
    widgets::text_wrapped(context.palette.muted,
                          fmt::format("Looking for the budget that keeps {}\u2026", what));
  if (context.figure || !question.takes_long()) return;
  if (!search)
    search_button_ui(what, question.method.id(), search);
  else if (ImGui::SmallButton("Stop looking###search"))
    search = false;
}

// "Lost at the head merge: ..." of a single key; of one of several it is named first. What is said of
// one key is no alarm while the method keeps most of the others.
void cause_ui(DrawContext& context, const KeyUnderMethod& key) {
  const auto& result = key.why.result;
  const state::Place& place = result.question.place;
  std::string cause = state::cause_of(place, *result);
  bool alarm = !result->kept;
  if (is_of_several(key) && key.span) {
    cause.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(cause.front())));
    cause = fmt::format("{}, key {}: {}", token_of(place, result.question.position),
                        format_count(result.question.position), cause);
    const auto& chunk = key.span->chunks.at(static_cast<std::size_t>(place.chunk));
    alarm &= 2 * chunk.kept < chunk.total;
  }
  const widgets::FontScope strong(widgets::Type::Strong);
  widgets::text_wrapped(alarm ? context.palette.error : context.palette.text, cause);
}

}  // namespace

bool is_of_several(const KeyUnderMethod& key) {
  const auto span = state::watched_keys(key.why.result.question.place);
  return span && span->keys.size() > 1;
}

void key_verdict_ui(DrawContext& context, const KeyUnderMethod& key, bool& search) {
  const auto& result = key.why.result;
  if (!result) {
    waiting_ui(context, result);
    return;
  }
  if (result.stale) widgets::stale_ui(context.palette);
  const Explanation& why = *result;
  const state::Place& place = result.question.place;
  cause_ui(context, key);
  what_ifs_ui(context, key);
  stages_ui(context, key.why);
  ImGui::Dummy({0, widgets::grid(0.5F)});
  std::string numbers = state::numbers_of(place, why);
  const std::string budget = state::budget_of(key.why);
  if (!budget.empty()) numbers += " " + budget;
  if (key.span_budget)
    numbers += " " + state::sentence_of(key.span_budget.question, *key.span_budget);
  widgets::text_wrapped(context.palette.text, numbers);
  if (is_of_several(key))
    span_search_ui(context, key, search);
  else
    search_ui(context, key.why, search);
  if (result.question.method.recorded()) {
    const auto run = context.workspace.ask(state::RunQuestion{place, result.question.method});
    const std::string note = run ? state::disagreement(result.question, why, *run) : std::string();
    if (!note.empty()) widgets::text_wrapped(context.palette.warning, note);
  }
}

}  // namespace kvloupe::panels
