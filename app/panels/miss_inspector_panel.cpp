// miss_inspector: why a key was lost, or kept, by A, B or both: the cause and what would have kept it,
// its life through the chunks, and its fate in all layers.
#include "app/state/questions/why_lost/miss_inspector.h"

#include "app/panels/key_inspection.h"
#include "app/panels/show_control.h"
#include "app/panels/span_verdict.h"
#include "app/panels/watched_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace kvloupe::panels {
namespace {

using state::ExplainQuestion;
using state::KeyFatesQuestion;
using state::KeyLifeQuestion;
using state::MethodChoice;
using state::MissQuestion;
using state::Place;
using state::Slot;

constexpr const char* kView = "miss_inspector";

class MissInspectorPanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    const Place& place = context.workspace.place();
    const auto span = state::watched_keys(place);
    show_ui(context, kView);
    widgets::figure_head_ui(
        context.palette, context.figure,
        span ? "What became of " + state::watched_words(place) : "Miss inspector", "",
        place_caption(place), trace_chips(context, place));
    if (!span) {
      widgets::empty_ui(context.palette,
                        "Click a key in any view, or select a word in the token strip.");
      return;
    }
    const state::WatchedKey watched = state::watched_key(context.workspace);
    // The cause stands first.
    if (!context.figure && watched.position != std::exchange(last_key_, watched.position))
      ImGui::SetScrollY(0);
    if (show_now(context, kView) == state::Show::Both)
      same_method_ui(context, context.workspace.method(Slot::A), context.workspace.method(Slot::B));
    head_.begin();
    // What one head keeps is asked first: it must not wait behind the search in all of them.
    const std::vector<KeyUnderMethod> known = known_of(context, watched.position);
    const std::vector<state::SpanLossNow> losses =
        span->keys.size() > 1 ? losses_of(context) : std::vector<state::SpanLossNow>();
    if (!losses.empty()) {
      // What is compared lies at one height.
      span_parts_ui(context, "span", [&](std::size_t i, Slot slot) {
        span_verdict_ui(context, losses[i], slot, shown(slot).search_span);
      });
      if (!is_low(context)) maps_ui(context, losses);
    }
    slots_ui(context, known, watched, losses);
  }

 private:
  // Of all of the span, in all heads.
  std::vector<state::SpanLossNow> losses_of(DrawContext& context) {
    std::vector<state::SpanLossNow> losses;
    for (const Slot slot : state::inspected_slots(context.workspace)) {
      SlotParts& parts = shown(slot);
      const state::SpanLossQuestion question =
          state::span_loss_question(context.workspace, context.workspace.method(slot));
      // Another span, place or method: the search ends.
      if (std::exchange(parts.span_searched_for, question.key()) != question.key())
        parts.search_span = false;
      losses.push_back(state::span_loss_now(context.workspace, question, parts.search_span));
    }
    return losses;
  }

  // Of the methods beside each other, where there is room for the numbers of both.
  template <typename Draw>
  static void span_parts_ui(DrawContext& context, const char* part, const Draw& draw) {
    const std::vector<Slot> slots = state::inspected_slots(context.workspace);
    const float gap = widgets::em(1.2F), room = ImGui::GetContentRegionAvail().x;
    const bool beside = slots.size() == 2 && room > widgets::em(60);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (beside && i > 0) ImGui::SameLine(0, gap);
      ImGui::PushID(part);
      ImGui::BeginChild(id_of(slots[i]), {beside ? (room - gap) / 2 : 0, 0},
                        ImGuiChildFlags_AutoResizeY,
                        context.figure ? ImGuiWindowFlags_NoScrollbar : ImGuiWindowFlags_None);
      draw(i, slots[i]);
      ImGui::EndChild();
      ImGui::PopID();
    }
  }

  // Where there is no room for all, what is said of a key stands above the maps of all heads.
  static bool is_low(const DrawContext& context) {
    return !context.figure && ImGui::GetWindowHeight() < widgets::em(50);
  }

  static void maps_ui(DrawContext& context, const std::vector<state::SpanLossNow>& losses) {
    span_parts_ui(context, "span map",
                  [&](std::size_t i, Slot slot) { span_map_ui(context, losses[i], slot); });
  }

  // The span in all heads stands below what is said of its key.
  void heads_ui(DrawContext& context, const std::vector<state::SpanLossNow>& losses) {
    if (losses.empty()) return;
    ImGui::Dummy({0, widgets::grid(0.5F)});
    if (is_low(context)) maps_ui(context, losses);
    span_parts_ui(context, "span heads", [&](std::size_t i, Slot slot) {
      span_heads_ui(context, losses[i], slot, shown(slot).all_heads);
    });
  }

  // The parts come one after the other: what another method did, or did to other keys, stays in none of them.
  template <state::Question Q>
  static state::Result<Q> ask(state::Workspace& workspace, state::LastAnswer<Q>& shown,
                              const Q& question) {
    state::Result<Q> result = shown.ask(workspace, question);
    if (!result.stale ||
        (result.question.method == question.method &&
         state::watched_keys(result.question.place) == state::watched_keys(question.place)))
      return result;
    state::Result<Q> coming;
    coming.state = state::ResultState::Loading;
    coming.question = question;
    return coming;
  }

  // What each method is asked of the key, the cause before all else and the long search last.
  std::vector<KeyUnderMethod> known_of(DrawContext& context, std::int32_t position) {
    state::Workspace& workspace = context.workspace;
    const Place& place = workspace.place();
    std::vector<KeyUnderMethod> known;
    for (const Slot slot : state::inspected_slots(workspace)) {
      const MethodChoice& method = workspace.method(slot);
      KeyUnderMethod& key = known.emplace_back();
      key.slot = slot;
      key.span = ask(workspace, shown(slot).span, MissQuestion{place, method});
      key.why.result = ask(workspace, shown(slot).why, ExplainQuestion{place, method, position});
    }
    for (KeyUnderMethod& key : known)
      key.life = ask(workspace, shown(key.slot).life,
                     KeyLifeQuestion{place, workspace.method(key.slot), position});
    for (KeyUnderMethod& key : known)
      key.fates = ask(workspace, shown(key.slot).fates,
                      KeyFatesQuestion{place, workspace.method(key.slot), position});
    for (KeyUnderMethod& key : known) {
      SlotParts& parts = shown(key.slot);
      // Another key, place or method: the search ends.
      if (parts.searched_for != key.why.result.key) parts.search = false;
      parts.searched_for = key.why.result.key;
      if (!is_of_several(key)) {
        key.why = state::with_budget(workspace, key.why.result, parts.search);
        continue;
      }
      const state::SpanBudgetQuestion question{place, workspace.method(key.slot)};
      if (!question.obstacle().empty()) continue;
      key.span_budget.question = question;
      if (parts.search || !question.takes_long())
        key.span_budget = ask(workspace, parts.span_budget, question);
    }
    return known;
  }

  // From here on less and less is spoken of: the span in one head, then one of its keys.
  static void scope_ui(const char* words) {
    const widgets::FontScope small(widgets::Type::Caption);
    ImGui::SeparatorText(words);
  }

  // Beside each other where there is room; else what was decided by both, and then the rest of both.
  void slots_ui(DrawContext& context, const std::vector<KeyUnderMethod>& known,
                const state::WatchedKey& watched, const std::vector<state::SpanLossNow>& losses) {
    const Place& place = context.workspace.place();
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const bool beside = known.size() == 2 && room.x > widgets::em(44);
    if (known.size() == 1 || beside) {
      if (!losses.empty()) scope_ui("The span in this head");
      const bool shared = shared_ui(context, known);
      columns_ui(context, known, "head",
                 [&](const KeyUnderMethod& key) { head_ui(context, key, shared); });
      if (!losses.empty()) scope_ui("One of its keys");
      watched_text_ui(context, place, watched);
      columns_ui(context, known, "verdict",
                 [&](const KeyUnderMethod& key) { verdict_ui(context, key); });
      const state::Selection& s = context.workspace.selection();
      // In a figure nothing is flipped.
      if (!context.figure)
        head_.end(fmt::format("{}|{}|{}|{}|{}", known.size(), s.place.cell_key(), last_key_,
                              s.choice(Slot::A).key(), s.choice(Slot::B).key()));
      heads_ui(context, losses);
      const float left = ImGui::GetContentRegionAvail().y;
      columns_ui(context, known, "details",
                 [&](const KeyUnderMethod& key) { details_ui(context, key, left); });
      return;
    }
    watched_text_ui(context, place, watched);
    for (const KeyUnderMethod& key : known) {
      ImGui::PushID(id_of(key.slot));
      head_ui(context, key, false);
      verdict_ui(context, key);
      ImGui::PopID();
      ImGui::Dummy({0, widgets::grid(0.5F)});
    }
    heads_ui(context, losses);
    for (const KeyUnderMethod& key : known) {
      ImGui::PushID(id_of(key.slot));
      ImGui::SeparatorText(
          fmt::format("{}: {}", letter_of(key.slot), key.span.question.method.id()).c_str());
      details_ui(context, key, 0);
      ImGui::PopID();
    }
  }

  // Of the methods beside each other, each as high as its content.
  template <typename Draw>
  static void columns_ui(DrawContext& context, const std::vector<KeyUnderMethod>& known,
                         const char* part, const Draw& draw) {
    const float gap = widgets::em(1);
    const auto parts = static_cast<float>(known.size());
    const float width = ImGui::GetContentRegionAvail().x / parts - (parts > 1 ? gap / 2 : 0);
    for (const KeyUnderMethod& key : known) {
      if (key.slot != known.front().slot) ImGui::SameLine(0, gap);
      ImGui::PushID(part);
      ImGui::BeginChild(id_of(key.slot), {width, 0}, ImGuiChildFlags_AutoResizeY,
                        context.figure ? ImGuiWindowFlags_NoScrollbar : ImGuiWindowFlags_None);
      draw(key);
      ImGui::EndChild();
      ImGui::PopID();
    }
  }

  // Once, where it is the same under both methods: what attention makes of the span in this row.
  static bool shared_ui(DrawContext& context, const std::vector<KeyUnderMethod>& known) {
    if (known.size() != 2 || !known[0].span || !known[1].span || !is_of_several(known[0]))
      return false;
    std::array<std::string, 2> words;
    for (std::size_t i = 0; i < 2; ++i)
      words[i] = state::mass_sentence_of(known[i].span.question, *known[i].span);
    if (words[0].empty() || words[0] != words[1]) return false;
    widgets::text_wrapped(context.palette.muted, words[0]);
    return true;
  }

  static const char* id_of(Slot slot) { return slot == Slot::A ? "fate a" : "fate b"; }

  // What the method kept of the span in this row. `shared`: what does not depend on the method has been
  // said of both.
  static void head_ui(DrawContext& context, const KeyUnderMethod& key, bool shared) {
    const state::Result<MissQuestion>& span = key.span;
    const Place& place = span.question.place;
    const state::MethodFacts facts =
        span ? span->facts : state::facts_of(place, span.question.method);
    const std::vector<widgets::Chip> chips = method_chips(context, place, facts, key.slot);
    // Of a single key all that is said of the span is said better below, if it is known.
    const bool speaks =
        span && (is_of_several(key) || key.why.result.state == state::ResultState::Empty);
    // A chip that only names the method is said by its letter.
    if (speaks && chips.size() == 1) {
      letter_ui(context, key.slot);
      ImGui::SameLine(0, widgets::em(0.5F));
    } else {
      widgets::figure_head_ui(context.palette, context.figure, "", "", "", chips);
    }
    if (!span && span.state != state::ResultState::Loading) ready_ui(context, span, "");
    if (!speaks) {
      if (span) method_note_ui(context, place, facts);
      return;
    }
    std::string words = shared ? state::kept_sentence_of(span.question, *span)
                               : state::sentence_of(span.question, *span);
    if (!span->deaths.empty()) words += " " + span->deaths;
    widgets::text_wrapped(context.palette.text, words);
    method_note_ui(context, place, facts);
  }

  void verdict_ui(DrawContext& context, const KeyUnderMethod& key) {
    const state::Result<MissQuestion>& span = key.span;
    if (!span && span.state != state::ResultState::Loading) return;  // said above
    if (is_of_several(key) && state::inspected_slots(context.workspace).size() == 2) {
      letter_ui(context, key.slot);
      ImGui::SameLine(0, widgets::em(0.5F));
    }
    key_verdict_ui(context, key, shown(key.slot).search);
  }

  // A figure's page grows by what does not fit.
  static void details_ui(DrawContext& context, const KeyUnderMethod& key, float room) {
    const float width = ImGui::GetContentRegionAvail().x;
    const float gap = widgets::em(0.45F) + ImGui::GetStyle().ItemSpacing.y;
    const float fates = key_fates_height(key) + gap, lists = key_lists_height(key, width) + gap;
    // In a figure not by the room: that is of a page which grows until all fits.
    const float plot =
        context.figure ? widgets::em(13)
                       : std::clamp(room - fates - lists - gap, widgets::em(11), widgets::em(17));
    const auto section = [gap = widgets::em(0.45F)] { ImGui::Dummy({0, gap}); };
    section();
    key_life_ui(context, key, plot);
    section();
    key_fates_ui(context, key);
    section();
    key_lists_ui(context, key);
  }

  struct SlotParts {
    state::LastAnswer<MissQuestion> span;
    state::LastAnswer<ExplainQuestion> why;
    state::LastAnswer<state::SpanBudgetQuestion> span_budget;
    state::LastAnswer<KeyLifeQuestion> life;
    state::LastAnswer<KeyFatesQuestion> fates;
    bool search = false;  // for the budget of the question of this key
    std::string searched_for;
    bool search_span = false;  // for the budget that keeps all of the span
    std::string span_searched_for;
    bool all_heads = false;  // that matter to the span are listed
  };
  SlotParts& shown(Slot slot) { return shown_[static_cast<std::size_t>(slot)]; }

  std::array<SlotParts, 2> shown_;
  SteadyHead head_;
  std::int32_t last_key_ = -1;
};

}  // namespace

std::unique_ptr<Panel> make_miss_inspector_panel() {
  return std::make_unique<MissInspectorPanel>();
}

}  // namespace kvloupe::panels
