// See method_editor.h.
#include "app/shell/method_editor.h"

#include "app/shell/method_card.h"
#include "app/shell/param_ui.h"
#include "app/state/method_groups.h"
#include "app/state/token_text.h"
#include "app/widgets/figure.h"
#include "core/base/error.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::shell {
namespace {

// Why the trace cannot serve the method; empty while that is not known.
std::string reason_of(const state::Result<state::UnavailableQuestion>& unavailable,
                      const std::string& id) {
  if (!unavailable) return {};
  const auto found = unavailable->find(id);
  return found != unavailable->end() ? found->second : std::string();
}

}  // namespace

void MethodEditor::draw(state::Workspace& workspace, const widgets::Palette& palette,
                        state::Slot slot) {
  const state::MethodChoice choice = workspace.method(slot);
  const char* popup = slot == state::Slot::A ? "method A" : "method B";
  std::string text = choice.empty() ? std::string("choose") : state::short_label(choice);
  if (const std::string own = state::distinct_params(choice, workspace.method(other_than(slot)));
      !own.empty())
    text += "  " + widgets::elided(own, widgets::em(14));
  ImGui::PushFont(widgets::fonts().mono, ImGui::GetStyle().FontSizeBase * 0.95F);
  const bool pressed = ImGui::Button(fmt::format("{}###{} button", text, popup).c_str());
  ImGui::PopFont();
  if (ImGui::IsItemHovered() && !choice.empty())
    ImGui::SetTooltip("%s\n%s", state::readable_name(choice.text).c_str(),
                      choice.recorded() ? "recorded" : "re-selected on stored Q and K (open loop)");
  if (pressed) {
    problem_.clear();
    ImGui::OpenPopup(popup);
  }
  ImGui::SetNextWindowSizeConstraints({widgets::em(28), 0}, {widgets::em(42), widgets::em(46)});
  if (ImGui::BeginPopup(popup)) {
    follow(workspace, slot);
    popup_ui(workspace, palette, slot);
    ImGui::EndPopup();
  }
}

void MethodEditor::follow(const state::Workspace& workspace, state::Slot slot) {
  const auto index = static_cast<std::size_t>(slot);
  const state::MethodChoice& choice = workspace.method(slot);
  const state::Place& place = workspace.place();
  const std::string key = place.trace_key() + choice.key();
  if (drafted_[index] == key) return;
  drafted_[index] = key;
  problem_.clear();
  drafts_[index] = state::MethodDraft(
      choice.known() ? choice.text : state::default_spec(place.info().num_tokens),
      place.trace->shape());
}

void MethodEditor::runs_ui(state::Workspace& workspace, const widgets::Palette& palette,
                           state::Slot slot) {
  ImGui::SeparatorText("Recorded");
  const auto& runs = workspace.place().info().runs;
  const float room =
      ImGui::GetTextLineHeightWithSpacing() *
      std::min<float>(6.5F, static_cast<float>(std::max<std::size_t>(1, runs.size())));
  ImGui::BeginChild("##recorded", {0, room});
  for (const trace::RunInfo& run : runs) {
    const bool here = workspace.method(slot).run == run.id;
    if (ImGui::Selectable(
            fmt::format("{}##run{}",
                        state::short_label(state::choice_of_run(run, *workspace.place().trace)),
                        run.id)
                .c_str(),
            here))
      workspace.cursor.set_run(slot, run.id);
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", state::readable_name(run.method).c_str());
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
  state::MethodDraft& draft = drafts_[static_cast<std::size_t>(slot)];
  runs_ui(workspace, palette, slot);
  ImGui::SeparatorText("Select anew on stored Q and K (open loop)");
  bool changed = methods_ui(workspace, palette, draft);
  const selection::MethodInfo* info = selection::find_method(draft.id());
  if (info != nullptr) {
    widgets::text_wrapped(palette.muted, info->summary);
    const std::string reason =
        reason_of(unavailable_.ask(workspace, {workspace.place()}), info->id);
    if (!reason.empty()) widgets::text_wrapped(palette.warning, "With its defaults: " + reason);
  }
  const state::MethodDraft defaults =
      draft.defaults(workspace.place().trace->shape(), workspace.place().info().num_tokens);
  changed |= params_ui(draft, defaults, workspace.place().info().num_tokens);
  if (info != nullptr) help_ui(palette, *info);
  const std::string problem = draft.problem();
  if (changed && problem.empty()) {
    try {
      workspace.cursor.set_method(slot, draft.spec());
      drafted_[static_cast<std::size_t>(slot)] =
          workspace.place().trace_key() + workspace.method(slot).key();
      problem_.clear();
    } catch (const Error& error) {
      problem_ = error.what();
    }
  }
  if (!problem.empty() || !problem_.empty())
    widgets::text_wrapped(palette.error, problem.empty() ? problem_ : problem);
  ImGui::Separator();
  const widgets::FontScope mono(widgets::fonts().mono, 0.85F);
  widgets::text_wrapped(palette.muted, draft.spec());
}

}  // namespace kvloupe::shell
