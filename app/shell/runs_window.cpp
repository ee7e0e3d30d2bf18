#include "app/shell/runs_window.h"

#include "app/state/method_groups.h"
#include "app/state/token_text.h"
#include "app/widgets/figure.h"
#include "app/widgets/slot_button.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <cmath>

namespace kvloupe::shell {

using state::MethodChoice;
using state::Slot;

void RunsWindow::draw(state::Workspace& workspace, const widgets::Palette& palette, bool* open) {
  ImGui::PushStyleColor(ImGuiCol_WindowBg, widgets::with_alpha(palette.panel, docked_ ? 0 : 1));
  const bool visible = ImGui::Begin(kRunsWindow, open, ImGuiWindowFlags_NoCollapse);
  ImGui::PopStyleColor();
  docked_ = ImGui::IsWindowDocked();
  if (visible && workspace.has_trace()) rows_ui(workspace, palette);
  ImGui::End();
}

void RunsWindow::rows_ui(state::Workspace& workspace, const widgets::Palette& palette) {
  const state::Place place = workspace.place();
  widgets::text_colored(palette.muted,
                        fmt::format("layer {}: mass recall, all chunks", place.layer));
  const std::vector<MethodChoice> recorded = workspace.traces.ready()->recorded;
  const std::vector<MethodChoice> tried = workspace.traces.ready()->tried;
  int index = 0;
  for (const MethodChoice& method : recorded) row_ui(workspace, palette, method, index++);
  if (!tried.empty()) ImGui::SeparatorText("tried here");
  for (const MethodChoice& method : tried) row_ui(workspace, palette, method, index++);
  if (recorded.empty() && tried.empty())
    widgets::text_wrapped(palette.muted,
                          "No run was recorded; the methods above are selected anew.");
}

void RunsWindow::row_ui(state::Workspace& workspace, const widgets::Palette& palette,
                        const MethodChoice& method, int index) {
  ImGui::PushID(index);
  for (const Slot slot : state::kSlots) {
    if (widgets::slot_button_ui(palette, slot, workspace.method(slot) == method))
      workspace.cursor.set_method(slot, method);
    ImGui::SameLine(0, widgets::em(0.2F));
  }
  const trace::RunInfo* run = method.run_info(workspace.place().info());
  const bool closed = run != nullptr && run->mode == trace::LoopMode::ClosedLoop;
  const float worth = widgets::em(7.5F);
  const float room = ImGui::GetContentRegionAvail().x;
  const std::string name = state::short_label(method) + (closed ? "  closed loop" : "");
  if (ImGui::Selectable(
          fmt::format("{}###name", widgets::elided(name, std::max(worth, room - worth))).c_str(),
          false, 0, {std::max(worth, room - worth), 0}))
    workspace.cursor.set_method(ImGui::GetIO().KeyCtrl ? Slot::B : Slot::A, method);
  if (ImGui::IsItemHovered())
    ImGui::SetTooltip(
        "%s%s%s\nclick: show as A; Ctrl+click: as B", state::readable_name(method.text).c_str(),
        method.known() ? "" : "\nunknown to this version: shown as recorded",
        run != nullptr && run->basis_leakage ? "\nleakage: its basis was fitted on this text" : "");
  ImGui::SameLine(0, widgets::em(0.3F));
  worth_ui(workspace, palette, method);
  ImGui::PopID();
}

void RunsWindow::worth_ui(state::Workspace& workspace, const widgets::Palette& palette,
                          const MethodChoice& method) {
  const auto summary = worth_[method.key()].ask(workspace, {workspace.place(), method});
  if (summary.state == state::ResultState::Error) {
    widgets::text_colored(palette.faint, "failed");
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", summary.error.c_str());
    return;
  }
  if (!summary || summary.stale) {
    widgets::text_colored(palette.faint, "\u2026");
    return;
  }
  if (!summary->mass_recall) {
    widgets::text_colored(palette.faint, "keeps all");
    return;
  }
  widgets::share_bar_ui(palette, *summary->mass_recall, palette.hit, widgets::em(3),
                        widgets::em(0.4F));
  ImGui::SameLine(0, widgets::em(0.3F));
  widgets::text_colored(palette.muted, fmt::format("{:.2f}", *summary->mass_recall));
  if (ImGui::IsItemHovered() && summary->effective_budget)
    ImGui::SetTooltip("%s keys kept, mean of the chunks that selected",
                      format_count(std::llround(*summary->effective_budget)).c_str());
}

}  // namespace kvloupe::shell
