#include "app/shell/frame/dock_layout.h"

#include "app/widgets/figure.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>

namespace kvloupe::shell {

using state::Perspective;
using state::Spot;

namespace {

// A dock has no x: it would close all that stand behind its tabs.
constexpr int kFlags =
    static_cast<int>(ImGuiDockNodeFlags_PassthruCentralNode) | ImGuiDockNodeFlags_NoCloseButton;

bool any_at(const std::vector<DockedWindow>& windows, Spot spot) {
  return std::any_of(windows.begin(), windows.end(),
                     [&](const DockedWindow& window) { return window.spot == spot; });
}

}  // namespace

unsigned dock_space_of(const Perspective& perspective) {
  return ImHashStr(("workspace " + perspective.id).c_str());
}

bool window_is_narrow() { return ImGui::GetMainViewport()->Size.x < widgets::em(73); }

std::string window_name(const std::string& title, const std::string& view,
                        const Perspective& perspective) {
  return fmt::format("{}###{}@{}", title, view, perspective.id);
}

void submit_dock_spaces(const Perspective& shown) {
  for (const Perspective& perspective : state::perspectives()) {
    const ImGuiID id = dock_space_of(perspective);
    if (&perspective != &shown && ImGui::DockBuilderGetNode(id) != nullptr)
      ImGui::DockSpace(id, {0, 0}, ImGuiDockNodeFlags_KeepAliveOnly);
  }
  ImGui::DockSpaceOverViewport(dock_space_of(shown), ImGui::GetMainViewport(), kFlags);
}

bool needs_layout(const Perspective& perspective) {
  const ImGuiDockNode* node = ImGui::DockBuilderGetNode(dock_space_of(perspective));
  return node == nullptr || (node->IsLeafNode() && node->Windows.Size == 0);
}

void build_layout(const Perspective& perspective, const std::vector<DockedWindow>& windows) {
  const ImGuiID space = dock_space_of(perspective);
  ImGui::DockBuilderRemoveNode(space);
  ImGui::DockBuilderAddNode(space, ImGuiDockNodeFlags_DockSpace);
  ImGui::DockBuilderSetNodeSize(space, ImGui::GetMainViewport()->WorkSize);
  const auto split = [](ImGuiID& from, ImGuiDir direction, float share) {
    return ImGui::DockBuilderSplitNode(from, direction, share, nullptr, &from);
  };
  ImGuiID large = space, beside = 0, beside_below = 0, below = 0;
  const bool has_beside = any_at(windows, Spot::Beside) || any_at(windows, Spot::BesideBelow);
  if (has_beside) beside = split(large, ImGuiDir_Right, perspective.beside);
  if (has_beside && any_at(windows, Spot::BesideBelow))
    beside_below = split(beside, ImGuiDir_Down, perspective.beside_below);
  if (any_at(windows, Spot::Below)) below = split(large, ImGuiDir_Down, perspective.below);
  const ImGuiID docks[] = {large, beside, beside_below, below};
  for (const DockedWindow& window : windows)
    ImGui::DockBuilderDockWindow(window.name.c_str(), docks[static_cast<int>(window.spot)]);
  ImGui::DockBuilderFinish(space);
}

void dock_if_homeless(const Perspective& perspective, const std::string& name) {
  const ImGuiDockNode* large = ImGui::DockBuilderGetCentralNode(dock_space_of(perspective));
  if (large == nullptr) return;
  const ImGuiWindow* window = ImGui::FindWindowByName(name.c_str());
  const bool lost = window != nullptr && window->DockId != 0 &&
                    ImGui::DockBuilderGetNode(window->DockId) == nullptr;
  ImGui::SetNextWindowDockID(large->ID, lost ? ImGuiCond_Always : ImGuiCond_FirstUseEver);
}

void bring_to_front(const std::string& name) {
  ImGui::SetNextWindowFocus();
  const ImGuiWindow* window = ImGui::FindWindowByName(name.c_str());
  if (window == nullptr || window->DockNode == nullptr || window->DockNode->TabBar == nullptr)
    return;
  ImGuiTabBar* tabs = window->DockNode->TabBar;
  if (ImGuiTabItem* tab = ImGui::TabBarFindTabByID(tabs, window->TabId))
    ImGui::TabBarQueueFocus(tabs, tab);
}

}  // namespace kvloupe::shell
