// See method_editor.h.
#include "app/shell/methods/method_editor.h"

#include "app/shell/bars/bar_pickers.h"
#include "app/shell/methods/method_card.h"
#include "app/state/method_groups.h"
#include "app/state/questions/how_it_ran/run.h"
#include "app/state/run_names.h"
#include "app/state/token_text.h"
#include "app/widgets/figure.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

namespace kvloupe::shell {
namespace {

constexpr float kMostRows = 10;  // recorded runs in sight; of more the list scrolls

// Why the trace cannot serve the method; empty while that is not known.
std::string reason_of(const state::Result<state::UnavailableQuestion>& unavailable,
                      const std::string& id) {
  if (!unavailable) return {};
  const auto found = unavailable->find(id);
  return found != unavailable->end() ? found->second : std::string();
}

// What is known of the method in the row of the place, the most telling first.
std::vector<std::string> facts_of_card(const state::MethodFacts& facts) {
  std::vector<std::string> parts;
  if (facts.leakage) parts.emplace_back("leakage");
  const auto& choice = facts.choice;
  parts.emplace_back(facts.mode == trace::LoopMode::ClosedLoop ? "closed loop"
                     : choice.recorded()                       ? "recorded"
                                                               : "open loop");
  if (!facts.has_run) return parts;
  if (facts.keeps_every_key())
    parts.emplace_back("keeps all keys");
  else if (facts.effective_budget)
    parts.push_back(fmt::format("{} kept{}", format_count(std::llround(*facts.effective_budget)),
                                facts.requested_budget ? "" : " on average"));
  if (facts.dense_cells > 0)
    parts.push_back(fmt::format("dense in {} of {} chunks", facts.dense_cells,
                                facts.cells + facts.dense_cells));
  return parts;
}

void card_tooltip(const widgets::Palette& palette, const state::MethodFacts& facts) {
  std::string text = facts.choice.recorded() ? "Recorded." : "Selected anew on the stored Q and K.";
  text += facts.mode == trace::LoopMode::ClosedLoop
              ? " Closed loop: the model attended to what was selected while it ran."
              : " Open loop: the model did not attend to what was selected.";
  if (facts.effective_budget)
    text += fmt::format(
        " In this layer and row {} keys are kept on average where it selects{}.",
        format_count(std::llround(*facts.effective_budget)),
        facts.requested_budget
            ? fmt::format(", of {} asked for", format_count(std::llround(*facts.requested_budget)))
            : "");
  if (facts.dense_cells > 0)
    text += fmt::format(" In {} of {} prompt chunks everything is kept.", facts.dense_cells,
                        facts.cells + facts.dense_cells);
  if (!facts.scope.empty())
    text += facts.scope == "past" ? " It selects among the keys before the chunk."
                                  : " It selects among all keys, the chunk's own included.";
  if (facts.leakage) text += " Leakage: its basis was fitted on text of this trace.";
  widgets::tooltip(widgets::em(34), [&palette, spec = facts.choice.text, text] {
    {
      const widgets::FontScope mono(widgets::Type::Number);
      widgets::text_wrapped(palette.text, state::readable_name(spec));
    }
    widgets::text_wrapped(palette.muted, text);
  });
}

// True when it was pressed.
bool card_ui(state::Workspace& workspace, const widgets::Palette& palette, state::Slot slot,
             const char* popup, float width) {
  const state::MethodChoice choice = workspace.method(slot);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const bool pressed = ImGui::Button(fmt::format("###{} button", popup).c_str(), {width, 0});
  const ImVec2 to = ImGui::GetItemRectMax();
  std::shared_ptr<const state::MethodFacts> facts;
  if (!choice.empty()) facts = known_facts(workspace, workspace.place(), choice);
  if (facts && is_explained()) card_tooltip(palette, *facts);
  ImDrawList* draw = ImGui::GetWindowDrawList();
  draw->PushClipRect(at, to, true);
  const float y = at.y + ImGui::GetStyle().FramePadding.y;
  float x = at.x + widgets::em(0.5F);
  const float end = to.x - widgets::em(0.5F);
  const auto text_ui = [&](const std::string& text, ImU32 color) {
    draw->AddText({x, y}, color, text.c_str());
    x += ImGui::CalcTextSize(text.c_str()).x;
  };
  text_ui(std::string(1, letter_of(slot)), widgets::color_of_slot(palette, slot));
  x += widgets::em(0.6F);
  {
    std::string name = choice.empty() ? std::string("choose") : state::label_of(workspace, choice);
    if (const std::string own = state::distinct_params(choice, workspace.method(other_than(slot)));
        !own.empty() && state::own_name(workspace, choice).empty())
      name += "  " + own;
    const widgets::FontScope mono(widgets::Type::Number);
    text_ui(widgets::elided_label(name, end - x), palette.text);
  }
  if (slot == state::Slot::B && !choice.empty() && choice == workspace.method(state::Slot::A))
    text_ui("  \u00B7  the same as A", palette.warning);
  if (facts)
    for (const std::string& part : facts_of_card(*facts)) {
      const std::string text = "  \u00B7  " + part;
      if (x + ImGui::CalcTextSize(text.c_str()).x > end) break;
      text_ui(text, facts->leakage && part == "leakage" ? palette.warning : palette.muted);
    }
  draw->PopClipRect();
  return pressed;
}

}  // namespace

void MethodEditor::draw(state::Workspace& workspace, const widgets::Palette& palette,
                        state::Slot slot, float width) {
  const char* popup = slot == state::Slot::A ? "method A" : "method B";
  const bool pressed = card_ui(workspace, palette, slot, popup, width);
  if (pressed) {
    knobs_[static_cast<std::size_t>(slot)].forget_problem();
    ImGui::OpenPopup(popup);
  }
  // Below its card, but not over the page of a tour, which says what to do in it.
  constexpr float kWidest = 42;
  const ImGuiViewport& viewport = *ImGui::GetMainViewport();
  const float most = viewport.Pos.x + viewport.Size.x - widgets::em(kWidest + 1);
  ImGui::SetNextWindowPos({std::max(std::min(ImGui::GetItemRectMin().x, most), viewport.WorkPos.x),
                           ImGui::GetItemRectMax().y},
                          ImGuiCond_Appearing);
  ImGui::SetNextWindowSizeConstraints({widgets::em(28), 0},
                                      {widgets::em(kWidest), widgets::em(46)});
  if (ImGui::BeginPopup(popup)) {
    knobs_[static_cast<std::size_t>(slot)].follow(workspace, slot);
    popup_ui(workspace, palette, slot);
    ImGui::EndPopup();
  }
}

void MethodEditor::runs_ui(state::Workspace& workspace, const widgets::Palette& palette,
                           state::Slot slot) {
  ImGui::SeparatorText("Recorded");
  const auto& runs = workspace.place().info().runs;
  const std::vector<std::string> labels =
      state::labels_of(workspace, workspace.traces.ready()->recorded);
  const float room =
      ImGui::GetTextLineHeightWithSpacing() *
      std::min<float>(kMostRows, static_cast<float>(std::max<std::size_t>(1, runs.size())));
  ImGui::BeginChild("##recorded", {0, room});
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const trace::RunInfo& run = runs[i];
    const bool here = workspace.method(slot).run == run.id;
    if (ImGui::Selectable(fmt::format("{}##run{}", labels[i], run.id).c_str(), here))
      workspace.cursor.set_run(slot, run.id);
    if (ImGui::IsItemHovered()) widgets::tooltip("%s", state::readable_name(run.method).c_str());
    if (run.basis_leakage) {
      ImGui::SameLine();
      widgets::text_colored(palette.warning, "leakage");
    }
  }
  if (runs.empty()) widgets::text_colored(palette.faint, "none");
  ImGui::EndChild();
}

bool MethodEditor::methods_ui(state::Workspace& workspace, const widgets::Palette& palette,
                              state::MethodDraft& draft) {
  const auto unavailable = unavailable_.ask(workspace, {workspace.place()});
  const selection::MethodInfo* taken =
      finder_.draw(palette, draft.id(), "not on this trace",
                   [&](const std::string& id) { return reason_of(unavailable, id); });
  if (taken == nullptr) return false;
  draft.change_method(taken->id, workspace.place().trace->shape(),
                      workspace.place().info().num_tokens);
  return true;
}

void MethodEditor::help_ui(const widgets::Palette& palette, const selection::MethodInfo& method) {
  if (!ImGui::TreeNodeEx("About this method", ImGuiTreeNodeFlags_SpanAvailWidth)) return;
  method_help_ui(palette, method);
  ImGui::TreePop();
}

void MethodEditor::popup_ui(state::Workspace& workspace, const widgets::Palette& palette,
                            state::Slot slot) {
  MethodKnobs& knobs = knobs_[static_cast<std::size_t>(slot)];
  state::MethodDraft& draft = knobs.draft();
  runs_ui(workspace, palette, slot);
  ImGui::SeparatorText("Select anew on stored Q and K (open loop)");
  Edit edit = methods_ui(workspace, palette, draft) ? Edit::Done : Edit::None;
  const selection::MethodInfo* info = selection::find_method(draft.id());
  if (info != nullptr) {
    widgets::text_wrapped(palette.muted, info->summary);
    const std::string reason =
        reason_of(unavailable_.ask(workspace, {workspace.place()}), info->id);
    if (!reason.empty()) widgets::text_wrapped(palette.warning, "With its defaults: " + reason);
  }
  edit = std::max(edit, params_ui(draft, knobs.defaults(workspace), knobs.room(workspace)));
  if (info != nullptr) help_ui(palette, *info);
  knobs.apply(workspace, slot, edit);
  if (const std::string problem = knobs.problem(); !problem.empty())
    widgets::text_wrapped(palette.error, problem);
  ImGui::Separator();
  const widgets::FontScope mono(widgets::Type::Number);
  widgets::text_wrapped(palette.muted, draft.spec());
}

}  // namespace kvloupe::shell
