#include "app/shell/bars/file_tabs.h"

#include "app/state/perspectives.h"
#include "app/state/token_text.h"
#include "app/widgets/figure.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>

namespace kvloupe::shell {
namespace {

struct Pressed {
  bool chosen = false, closed = false;
};

// `id` tells it from the others.
Pressed tab_ui(const widgets::Palette& palette, const std::string& name, const std::string& path,
               const std::string& id, bool here, const char* closing) {
  Pressed pressed;
  ImGui::PushStyleColor(ImGuiCol_Text, here ? palette.text : palette.faint);
  pressed.chosen =
      ImGui::MenuItem(fmt::format("{}##tab{}", state::readable_name(name), id).c_str());
  ImGui::PopStyleColor();
  if (ImGui::IsItemHovered()) widgets::tooltip("%s", state::readable_name(path).c_str());
  pressed.closed = ImGui::IsItemClicked(ImGuiMouseButton_Middle);
  if (here) {
    const ImVec2 from = ImGui::GetItemRectMin(), to = ImGui::GetItemRectMax();
    ImGui::GetWindowDrawList()->AddRectFilled({from.x, to.y - 2}, to, palette.accent);
  }
  ImGui::PushStyleColor(ImGuiCol_Button, 0);
  ImGui::PushStyleColor(ImGuiCol_Text, palette.faint);
  pressed.closed |= ImGui::SmallButton(fmt::format("\u00D7##close{}", id).c_str());
  ImGui::PopStyleColor(2);
  if (ImGui::IsItemHovered()) widgets::tooltip("%s", closing);
  return pressed;
}

// One file at a time.
void results_tab_ui(state::Workspace& workspace, bool here, const widgets::Palette& palette) {
  state::OpenResults& results = workspace.results;
  if (!results.is_open()) return;
  const std::string name = std::filesystem::path(results.path()).filename().string();
  const Pressed pressed =
      tab_ui(palette, name, results.path(), " results", here, "Close the results");
  if (pressed.chosen) workspace.cursor.set_perspective(state::results_perspective().id);
  if (pressed.closed) workspace.wanted_command = "results.close";
}

}  // namespace

bool file_tabs_ui(state::Workspace& workspace, bool in_results, const widgets::Palette& palette) {
  int activate = -1, closed = -1;
  ImGui::Dummy({widgets::em(1), 0});
  const state::TraceTab* active = workspace.traces.active();
  for (const auto& tab : workspace.traces.tabs()) {
    const bool here = tab.get() == active && !in_results;
    const Pressed pressed = tab_ui(palette, tab->name, tab->path, std::to_string(tab->id), here,
                                   "Close the trace (undo opens it again)");
    if (pressed.chosen) activate = tab->id;
    if (pressed.closed) closed = tab->id;
  }
  results_tab_ui(workspace, in_results, palette);
  if (closed >= 0) activate = closed;
  if (activate >= 0) workspace.traces.activate(activate);
  // Who chooses a trace wants to see it.
  if (activate >= 0 && closed < 0 &&
      workspace.selection().perspective == state::results_perspective().id)
    workspace.cursor.set_perspective(state::perspectives().front().id);
  return closed >= 0;
}

}  // namespace kvloupe::shell
