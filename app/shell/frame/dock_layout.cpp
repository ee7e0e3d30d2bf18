#include "app/shell/frame/dock_layout.h"

#include "app/widgets/figure.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvloupe::shell {

using state::Perspective;
using state::Spot;

namespace {

// A dock has no x: it would close all that stand behind its tabs.
constexpr int kFlags =
    static_cast<int>(ImGuiDockNodeFlags_PassthruCentralNode) | ImGuiDockNodeFlags_NoCloseButton;

DockTree leaf(const std::vector<DockedView>& views, Spot spot) {
  DockTree dock;
  for (const DockedView& view : views)
    if (view.spot == spot) dock.views.push_back(view.id);
  dock.large = spot == Spot::Large;
  return dock;
}

// A side that holds nothing is not cut off.
DockTree cut(DockTree::Cut how, float second, DockTree a, DockTree b) {
  if (b.views.empty() && b.sides.empty()) return a;
  if (a.views.empty() && a.sides.empty() && !a.large) return b;
  DockTree tree;
  tree.cut = how;
  tree.share = 1 - second;
  tree.sides = {std::move(a), std::move(b)};
  return tree;
}

void scale(ImGuiDockNode& node, ImVec2 by) {
  node.SizeRef = {node.SizeRef.x * by.x, node.SizeRef.y * by.y};
  for (ImGuiDockNode* side : node.ChildNodes)
    if (side != nullptr) scale(*side, by);
}

}  // namespace

unsigned dock_space_of(const Perspective& perspective) {
  return ImHashStr(("workspace " + perspective.id).c_str());
}

WindowForm window_form() {
  const ImVec2 size = ImGui::GetMainViewport()->Size;
  return {size.x < widgets::em(73), size.y < widgets::em(54)};
}

std::string window_name(const std::string& title, const std::string& view,
                        const Perspective& perspective) {
  return fmt::format("{}###{}@{}", title, view, perspective.id);
}

std::string window_of_view(const std::string& view, const Perspective& perspective) {
  return window_name("", view, perspective);
}

void submit_dock_spaces(const Perspective* shown) {
  for (const Perspective& perspective : state::perspectives()) {
    const ImGuiID id = dock_space_of(perspective);
    if (&perspective != shown && ImGui::DockBuilderGetNode(id) != nullptr)
      ImGui::DockSpace(id, {0, 0}, ImGuiDockNodeFlags_KeepAliveOnly);
  }
  if (shown != nullptr)
    ImGui::DockSpaceOverViewport(dock_space_of(*shown), ImGui::GetMainViewport(), kFlags);
}

bool needs_layout(const Perspective& perspective) {
  const ImGuiDockNode* node = ImGui::DockBuilderGetNode(dock_space_of(perspective));
  return node == nullptr || (node->IsLeafNode() && node->Windows.Size == 0);
}

Room room_of_docks() {
  const ImVec2 room = ImGui::GetMainViewport()->WorkSize;
  return {room.x, room.y};
}

Room last_room_of_docks(const Perspective& perspective) {
  const ImGuiDockNode* node = ImGui::DockBuilderGetNode(dock_space_of(perspective));
  return node != nullptr ? Room{node->Size.x, node->Size.y} : Room{};
}

bool is_other_room(Room a, Room b) {
  return std::min({a.width, a.height, b.width, b.height}) > 0 &&
         (std::abs(a.width - b.width) >= 1 || std::abs(a.height - b.height) >= 1);
}

void fit_docks(const Perspective& perspective, Room from, Room to) {
  if (ImGuiDockNode* node = ImGui::DockBuilderGetNode(dock_space_of(perspective)))
    scale(*node, {to.width / from.width, to.height / from.height});
}

DockTree first_docks(const Perspective& perspective, const std::vector<DockedView>& views) {
  using Cut = DockTree::Cut;
  if (perspective.wide)
    return cut(Cut::Below, perspective.below, leaf(views, Spot::Large),
               cut(Cut::Beside, perspective.beside, leaf(views, Spot::Below),
                   leaf(views, Spot::BesideBelow)));
  return cut(Cut::Beside, perspective.beside,
             cut(Cut::Below, perspective.below, leaf(views, Spot::Large), leaf(views, Spot::Below)),
             cut(Cut::Below, perspective.beside_below, leaf(views, Spot::Beside),
                 leaf(views, Spot::BesideBelow)));
}

void dock_if_homeless(const Perspective& perspective, const std::string& name) {
  const ImGuiDockNode* large = ImGui::DockBuilderGetCentralNode(dock_space_of(perspective));
  if (large == nullptr) return;
  const ImGuiWindow* window = ImGui::FindWindowByName(name.c_str());
  const bool lost = window != nullptr && window->DockId != 0 &&
                    ImGui::DockBuilderGetNode(window->DockId) == nullptr;
  ImGui::SetNextWindowDockID(large->ID, lost ? ImGuiCond_Always : ImGuiCond_FirstUseEver);
}

namespace {

// Both null where the window is no tab.
std::pair<ImGuiTabBar*, ImGuiTabItem*> tab_of(const std::string& name) {
  const ImGuiWindow* window = ImGui::FindWindowByName(name.c_str());
  if (window == nullptr || window->DockNode == nullptr || window->DockNode->TabBar == nullptr)
    return {};
  ImGuiTabBar* tabs = window->DockNode->TabBar;
  return {tabs, ImGui::TabBarFindTabByID(tabs, window->TabId)};
}

}  // namespace

void bring_to_front(const std::string& name) {
  ImGui::SetNextWindowFocus();
  if (const auto [tabs, tab] = tab_of(name); tab != nullptr) ImGui::TabBarQueueFocus(tabs, tab);
}

void make_first_tab(const std::string& name) {
  const auto [tabs, tab] = tab_of(name);
  if (tab != nullptr) std::rotate(tabs->Tabs.begin(), tab, tab + 1);
}

}  // namespace kvloupe::shell
