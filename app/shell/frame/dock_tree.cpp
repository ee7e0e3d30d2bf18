#include "app/shell/frame/dock_tree.h"

#include "app/widgets/figure.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::shell {

using state::Perspective;

namespace {

// Of "KV map###kv_map@kept" in its own workspace; empty for what is no view's window there.
std::string view_of_window(const ImGuiWindow& window, const Perspective& perspective) {
  const std::string name = window.Name, end = "@" + perspective.id;
  const std::size_t begin = name.find("###");
  if (begin == std::string::npos || !name.ends_with(end)) return "";
  return name.substr(begin + 3, name.size() - begin - 3 - end.size());
}

void read_tabs(const ImGuiDockNode& node, const Perspective& perspective,
               std::vector<std::string>& views, std::string& front) {
  const auto add = [&](const ImGuiWindow* window) {
    const std::string view = window != nullptr ? view_of_window(*window, perspective) : "";
    if (view.empty()) return;
    views.push_back(view);
    if (window->TabId == node.SelectedTabId) front = view;
  };
  if (node.TabBar == nullptr)
    for (const ImGuiWindow* window : node.Windows) add(window);
  else
    for (const ImGuiTabItem& tab : node.TabBar->Tabs) add(tab.Window);
}

// A side that holds nothing is not seen.
bool is_seen(const ImGuiDockNode& node, const Perspective& perspective) {
  if (node.IsCentralNode()) return true;
  if (!node.IsLeafNode())
    return std::any_of(std::begin(node.ChildNodes), std::end(node.ChildNodes),
                       [&](const ImGuiDockNode* side) { return is_seen(*side, perspective); });
  std::vector<std::string> views;
  std::string front;
  read_tabs(node, perspective, views, front);
  return !views.empty();
}

bool holds_central(const ImGuiDockNode& node) {
  return node.IsLeafNode()
             ? node.IsCentralNode()
             : std::any_of(std::begin(node.ChildNodes), std::end(node.ChildNodes),
                           [](const ImGuiDockNode* side) { return holds_central(*side); });
}

// The share of its first side, by the rule of ImGui: the side without the large view has the size that it was given.
float share_of_first(const ImGuiDockNode& node, float room) {
  const auto axis = static_cast<ImGuiAxis>(node.SplitAxis);
  const ImGuiDockNode &a = *node.ChildNodes[0], &b = *node.ChildNodes[1];
  const float all = std::max(1.0F, room - ImGui::GetStyle().DockingSeparatorSize);
  const float first = a.SizeRef[axis], second = b.SizeRef[axis];
  if (second > 0 && holds_central(a)) return 1 - std::min(second / all, 1.0F);
  if (first > 0 && holds_central(b)) return std::min(first / all, 1.0F);
  return first + second > 0 ? first / (first + second) : 0.5F;
}

DockTree read(const ImGuiDockNode& node, const Perspective& perspective, ImVec2 room) {
  DockTree tree;
  if (node.IsLeafNode()) {
    read_tabs(node, perspective, tree.views, tree.front);
    tree.large = node.IsCentralNode();
    return tree;
  }
  // The other side has all of the room.
  for (const int empty : {0, 1})
    if (!is_seen(*node.ChildNodes[empty], perspective))
      return read(*node.ChildNodes[1 - empty], perspective, room);
  const auto axis = static_cast<ImGuiAxis>(node.SplitAxis);
  tree.cut = axis == ImGuiAxis_X ? DockTree::Cut::Beside : DockTree::Cut::Below;
  tree.share = share_of_first(node, room[axis]);
  ImVec2 first = room, second = room;
  first[axis] *= tree.share;
  second[axis] *= 1 - tree.share;
  tree.share = std::clamp(tree.share, 0.05F, 0.95F);
  tree.sides = {read(*node.ChildNodes[0], perspective, first),
                read(*node.ChildNodes[1], perspective, second)};
  return tree;
}

bool holds_large(const DockTree& tree) {
  return tree.large || std::any_of(tree.sides.begin(), tree.sides.end(), holds_large);
}

void build(ImGuiID node, const DockTree& tree, const Perspective& perspective) {
  if (tree.cut == DockTree::Cut::None) {
    for (const std::string& view : tree.views)
      ImGui::DockBuilderDockWindow(window_of_view(view, perspective).c_str(), node);
    return;
  }
  const bool beside = tree.cut == DockTree::Cut::Beside;
  // What is left of a cut stays the central node, where what lies nowhere comes.
  const bool large_first = holds_large(tree.sides[0]);
  const ImGuiDir first = beside ? ImGuiDir_Left : ImGuiDir_Up;
  const ImGuiDir second = beside ? ImGuiDir_Right : ImGuiDir_Down;
  ImGuiID cut_off = 0, left = 0;
  ImGui::DockBuilderSplitNode(node, large_first ? second : first,
                              large_first ? 1 - tree.share : tree.share, &cut_off, &left);
  build(large_first ? left : cut_off, tree.sides[0], perspective);
  build(large_first ? cut_off : left, tree.sides[1], perspective);
}

const ImGuiDockNode* floating_root(const ImGuiWindow& window) {
  if (window.DockNode == nullptr) return nullptr;
  const ImGuiDockNode* root = ImGui::DockNodeGetRootNode(window.DockNode);
  return root->IsDockSpace() ? nullptr : root;
}

void add_views(const ImGuiDockNode& node, const Perspective& perspective, TornOff& torn) {
  std::string front;
  read_tabs(node, perspective, torn.views, front);
  for (const ImGuiDockNode* side : node.ChildNodes)
    if (side != nullptr) add_views(*side, perspective, torn);
}

ImVec2 inside(ImVec2 at, ImVec2 size) {
  const ImGuiViewport& viewport = *ImGui::GetMainViewport();
  const auto within = [](float begin, float from, float room, float length) {
    return std::clamp(begin, from, from + std::max(0.0F, room - length));
  };
  return {within(at.x, viewport.WorkPos.x, viewport.WorkSize.x, size.x),
          within(at.y, viewport.WorkPos.y, viewport.WorkSize.y, size.y)};
}

ImVec2 no_larger(ImVec2 size) {
  const ImVec2 room = ImGui::GetMainViewport()->WorkSize;
  return {std::min(size.x, room.x), std::min(size.y, room.y)};
}

ImVec2 position_of(const TornOff& torn) {
  const ImGuiViewport& viewport = *ImGui::GetMainViewport();
  return {viewport.WorkPos.x + torn.x * viewport.WorkSize.x,
          viewport.WorkPos.y + torn.y * viewport.WorkSize.y};
}

ImVec2 size_of(const TornOff& torn) {
  const ImVec2 room = ImGui::GetMainViewport()->WorkSize;
  return {std::max(torn.width * room.x, widgets::em(16)),
          std::max(torn.height * room.y, widgets::em(12))};
}

bool differs(ImVec2 a, ImVec2 b) { return a.x != b.x || a.y != b.y; }

// What lies in no dock: a window, or the root of several.
struct Floating {
  ImGuiWindow* window = nullptr;
  const ImGuiDockNode* root = nullptr;  // null: the window alone

  explicit Floating(ImGuiWindow& floats) : window(&floats), root(floating_root(floats)) {}
  ImVec2 at() const { return root != nullptr ? root->Pos : window->Pos; }
  ImVec2 size() const { return root != nullptr ? root->Size : window->SizeFull; }

  void move(ImVec2 to, ImVec2 wanted) const {
    const ImVec2 size_now = no_larger(wanted), at_now = inside(to, size_now);
    if (differs(size_now, size())) {
      if (root != nullptr)
        ImGui::DockBuilderSetNodeSize(root->ID, size_now);
      else
        ImGui::SetWindowSize(window, size_now);
    }
    if (!differs(at_now, at())) return;
    if (root != nullptr)
      ImGui::DockBuilderSetNodePos(root->ID, at_now);
    else
      ImGui::SetWindowPos(window, at_now);
  }
};

std::vector<Floating> floating_of(const Perspective& perspective) {
  std::vector<Floating> all;
  for (ImGuiWindow* window : ImGui::GetCurrentContext()->Windows) {
    if (view_of_window(*window, perspective).empty() || !is_torn_off(window->Name)) continue;
    const Floating floats(*window);
    const auto same = [&](const Floating& other) { return other.root == floats.root; };
    if (floats.root == nullptr || std::none_of(all.begin(), all.end(), same)) all.push_back(floats);
  }
  return all;
}

}  // namespace

std::vector<std::string> views_in(const DockTree& docks) {
  std::vector<std::string> views = docks.views;
  for (const DockTree& side : docks.sides)
    for (std::string& view : views_in(side)) views.push_back(std::move(view));
  return views;
}

std::vector<std::string> views_in(const Layout& layout) {
  std::vector<std::string> views = views_in(layout.docks);
  for (const TornOff& torn : layout.torn_off)
    views.insert(views.end(), torn.views.begin(), torn.views.end());
  return views;
}

DockTree docks_of(const Perspective& perspective, Room room) {
  const ImGuiDockNode* node = ImGui::DockBuilderGetNode(dock_space_of(perspective));
  return node != nullptr ? read(*node, perspective, {room.width, room.height}) : DockTree{};
}

bool lie_alike(const DockTree& a, const DockTree& b) {
  constexpr float kPixels = 0.015F;  // what separators and rounding take of a share
  return a.cut == b.cut && a.large == b.large && std::abs(a.share - b.share) < kPixels &&
         a.views.size() == b.views.size() &&
         std::is_permutation(a.views.begin(), a.views.end(), b.views.begin()) &&
         std::equal(a.sides.begin(), a.sides.end(), b.sides.begin(), b.sides.end(), lie_alike);
}

bool float_alike(const std::vector<TornOff>& a, const std::vector<TornOff>& b) {
  constexpr float kPixels = 0.003F;
  const auto near = [](float one, float other) { return std::abs(one - other) < kPixels; };
  return std::ranges::equal(a, b, [&](const TornOff& one, const TornOff& other) {
    return one.views == other.views && near(one.x, other.x) && near(one.y, other.y) &&
           near(one.width, other.width) && near(one.height, other.height);
  });
}

void build_docks(const Perspective& perspective, const DockTree& docks) {
  const ImGuiID space = dock_space_of(perspective);
  ImGui::DockBuilderRemoveNode(space);
  ImGui::DockBuilderAddNode(space, ImGuiDockNodeFlags_DockSpace);
  ImGui::DockBuilderSetNodeSize(space, ImGui::GetMainViewport()->WorkSize);
  build(space, docks, perspective);
  ImGui::DockBuilderFinish(space);
}

bool is_torn_off(const std::string& name) {
  const ImGuiWindow* window = ImGui::FindWindowByName(name.c_str());
  return window != nullptr && window->WasActive &&
         (window->DockNode == nullptr || floating_root(*window) != nullptr);
}

std::vector<TornOff> torn_off_of(const Perspective& perspective, Room room) {
  const ImVec2 corner = ImGui::GetMainViewport()->WorkPos;
  std::vector<TornOff> all;
  for (const Floating& floats : floating_of(perspective)) {
    const ImVec2 at = floats.at(), size = floats.size();
    TornOff torn{(at.x - corner.x) / room.width,
                 (at.y - corner.y) / room.height,
                 size.x / room.width,
                 size.y / room.height,
                 {}};
    if (floats.root != nullptr)
      add_views(*floats.root, perspective, torn);
    else
      torn.views.push_back(view_of_window(*floats.window, perspective));
    all.push_back(std::move(torn));
  }
  return all;
}

void tear_off(const std::vector<std::string>& windows, const TornOff& where) {
  const ImVec2 size = no_larger(size_of(where)), at = inside(position_of(where), size);
  const ImGuiID node = ImGui::DockBuilderAddNode();
  ImGui::DockBuilderSetNodePos(node, at);
  ImGui::DockBuilderSetNodeSize(node, size);
  for (const std::string& window : windows) ImGui::DockBuilderDockWindow(window.c_str(), node);
  ImGui::DockBuilderFinish(node);
}

void fit_torn_off(const Perspective& perspective, const std::vector<TornOff>& all) {
  for (const Floating& floats : floating_of(perspective)) {
    const std::string view = view_of_window(*floats.window, perspective);
    for (const TornOff& torn : all)
      if (std::ranges::find(torn.views, view) != torn.views.end())
        floats.move(position_of(torn), size_of(torn));
  }
}

void keep_inside(const std::string& name) {
  if (!is_torn_off(name)) return;
  const Floating floats(*ImGui::FindWindowByName(name.c_str()));
  floats.move(floats.at(), floats.size());
}

unsigned central_dock_of(const Perspective& perspective) {
  const ImGuiDockNode* large = ImGui::DockBuilderGetCentralNode(dock_space_of(perspective));
  return large != nullptr ? large->ID : dock_space_of(perspective);
}

unsigned dock_of(const std::string& name) {
  const ImGuiWindow* window = ImGui::FindWindowByName(name.c_str());
  return window != nullptr && window->DockNode != nullptr && floating_root(*window) == nullptr
             ? window->DockNode->ID
             : 0;
}

bool dock_exists(const Perspective& perspective, unsigned dock) {
  ImGuiDockNode* node = dock != 0 ? ImGui::DockBuilderGetNode(dock) : nullptr;
  return node != nullptr && node->IsLeafNode() &&
         ImGui::DockNodeGetRootNode(node)->ID == dock_space_of(perspective);
}

void dock_in(unsigned dock, const std::string& window) {
  ImGui::DockBuilderDockWindow(window.c_str(), dock);
}

void dock_beside(const std::string& other, const std::string& window) {
  const ImGuiID dock = dock_of(other);
  if (dock == 0) return;
  const ImVec2 size = ImGui::DockBuilderGetNode(dock)->Size;
  ImGuiID made = dock;
  if (size.x >= widgets::em(56))
    ImGui::DockBuilderSplitNode(dock, ImGuiDir_Right, 0.5F, &made, nullptr);
  else if (size.y >= widgets::em(34))
    ImGui::DockBuilderSplitNode(dock, ImGuiDir_Down, 0.5F, &made, nullptr);
  dock_in(made, window);
}

}  // namespace kvloupe::shell
