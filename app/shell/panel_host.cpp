#include "app/shell/panel_host.h"

#include "app/shell/frame_guard.h"
#include "app/widgets/figure.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>

namespace kvloupe::shell {
namespace {

// Over the tab or the title of a view.
void about_ui(const state::ViewInfo& view) {
  std::string text = view.summary;
  if (!view.metrics.empty())
    text += fmt::format("\nits numbers: {}, \u201C{}\u201D", state::kMetricsFile, view.metrics);
  ImGui::SetTooltip("%s", text.c_str());
}

}  // namespace

PanelHost::PanelHost(Messages& messages) : messages_(messages) {
  for (const state::ViewInfo& view : state::views()) {
    Open open;
    open.view = &view;
    open.id = view.id;
    open.window = fmt::format("{}###{}", view.title, view.id);
    open.dock = view.dock;
    open.panel = panels::make_panel(view.id);
    panels_.push_back(std::move(open));
  }
}

void PanelHost::add_window(const std::string& name, state::Dock dock, bool open,
                           std::function<void(bool* open)> draw) {
  Open added;
  added.id = added.window = name;
  added.dock = dock;
  added.draw = std::move(draw);
  added.open = added.open_at_first = open;
  panels_.push_back(std::move(added));
}

void PanelHost::draw(state::Workspace& workspace, const figure::GuiContext& gui) {
  layout_ui();  // also while nothing is open: a dock space that is not submitted forgets its windows
  if (workspace.traces.tabs().empty()) return;
  for (Open& open : panels_) {
    open.visible = false;
    if (!open.open) continue;
    // Windows learn which tab is theirs over the first frames.
    if (open.frames_to_focus > 0 && --open.frames_to_focus == 0) ImGui::SetNextWindowFocus();
    ImGui::SetNextWindowSize({widgets::em(40), widgets::em(26)}, ImGuiCond_FirstUseEver);
    if (open.view == nullptr)
      window_ui(open, workspace, gui);
    else
      panel_ui(open, workspace, gui);
  }
}

bool PanelHost::draw_guarded(Open& open, const state::Workspace& workspace,
                             const std::function<void()>& draw) {
  const state::Selection& s = workspace.selection();
  const std::string key =
      s.place.empty() ? "" : s.place.cell_key() + workspace.method(s.shown).key();
  if (!open.problem.empty() && open.problem_key == key) return false;
  open.problem = guarded(draw);
  open.problem_key = key;
  if (open.problem.empty()) return true;
  const std::string& name = open.view != nullptr ? open.view->title : open.window;
  messages_.say_once(fmt::format("{}: {}", name, open.problem), true);
  return false;
}

void PanelHost::window_ui(Open& open, state::Workspace& workspace, const figure::GuiContext& gui) {
  if (draw_guarded(open, workspace, [&] { open.draw(&open.open); })) return;
  if (ImGui::Begin(open.window.c_str(), &open.open, ImGuiWindowFlags_NoCollapse) &&
      widgets::failed_ui(gui.palette(), open.problem))
    open.problem.clear();
  ImGui::End();
}

void PanelHost::panel_ui(Open& open, state::Workspace& workspace, const figure::GuiContext& gui) {
  // Docked, it lies on the cleared frame, which has its colour already.
  ImGui::PushStyleColor(ImGuiCol_WindowBg,
                        widgets::with_alpha(gui.palette().panel, open.docked ? 0 : 1));
  open.visible = ImGui::Begin(open.window.c_str(), &open.open, ImGuiWindowFlags_NoCollapse);
  ImGui::PopStyleColor();
  open.docked = ImGui::IsWindowDocked();
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip)) about_ui(*open.view);
  if (ImGui::BeginPopupContextItem()) {
    if (context_menu) context_menu(*open.view);
    ImGui::EndPopup();
  }
  if (open.visible) {
    panels::DrawContext context{workspace, gui.palette(), false, false};
    if (!draw_guarded(open, workspace, [&] { open.panel->draw(context); }) &&
        widgets::failed_ui(gui.palette(), open.problem))
      open.problem.clear();
  }
  ImGui::End();
}

void PanelHost::layout_ui() {
  const ImGuiID dockspace = ImGui::DockSpaceOverViewport(
      ImGui::GetID("explore"), ImGui::GetMainViewport(), ImGuiDockNodeFlags_PassthruCentralNode);
  const ImGuiDockNode* node = ImGui::DockBuilderGetNode(dockspace);
  const bool unknown = node == nullptr || (node->IsLeafNode() && node->Windows.Size == 0 &&
                                           ImGui::GetFrameCount() < 8);
  if (reset_layout_)
    for (Open& open : panels_) open.open = open.open_at_first;
  if (reset_layout_ || unknown) build_layout(dockspace);
  reset_layout_ = false;
}

void PanelHost::build_layout(unsigned dockspace) {
  ImGui::DockBuilderRemoveNode(dockspace);
  ImGui::DockBuilderAddNode(dockspace, ImGuiDockNodeFlags_DockSpace);
  ImGui::DockBuilderSetNodeSize(dockspace, ImGui::GetMainViewport()->WorkSize);
  const auto split = [](ImGuiID& from, ImGuiDir direction, float share) {
    return ImGui::DockBuilderSplitNode(from, direction, share, nullptr, &from);
  };
  ImGuiID center = dockspace;
  ImGuiID right = split(center, ImGuiDir_Right, 0.27F);
  const ImGuiID right_below = split(right, ImGuiDir_Down, 0.42F);
  const ImGuiID bottom = split(center, ImGuiDir_Down, 0.34F);
  ImGuiID left = split(center, ImGuiDir_Left, 0.26F);
  const ImGuiID left_below = split(left, ImGuiDir_Down, 0.40F);
  for (Open& open : panels_) {
    const ImGuiID where[] = {left, left_below, center, right, right_below, bottom};
    ImGui::DockBuilderDockWindow(open.window.c_str(), where[static_cast<int>(open.dock)]);
    // One after the other: a dock node shows the tab that had the focus.
    open.frames_to_focus = open.id == "kv_map" ? 3 : open.id == "token_strip" ? 6 : 0;
  }
  ImGui::DockBuilderFinish(dockspace);
}

void PanelHost::show(const std::string& id) {
  for (Open& open : panels_)
    if (open.id == id) {
      open.open = true;
      open.frames_to_focus = 2;
      ImGui::SetWindowFocus(open.window.c_str());
    }
}

bool PanelHost::is_open(const std::string& id) const {
  return std::any_of(panels_.begin(), panels_.end(),
                     [&](const Open& open) { return open.id == id && open.open; });
}

std::vector<std::string> PanelHost::closed() const {
  std::vector<std::string> ids;
  for (const Open& open : panels_)
    if (open.open_at_first && !open.open) ids.push_back(open.id);
  return ids;
}

std::vector<std::string> PanelHost::opened() const {
  std::vector<std::string> ids;
  for (const Open& open : panels_)
    if (!open.open_at_first && open.open) ids.push_back(open.id);
  return ids;
}

void PanelHost::set_open(const std::vector<std::string>& ids, bool is_open) {
  for (Open& open : panels_)
    if (std::find(ids.begin(), ids.end(), open.id) != ids.end()) open.open = is_open;
}

void PanelHost::forget() {
  for (Open& open : panels_)
    if (open.view != nullptr) open.panel = panels::make_panel(open.id);
}

bool PanelHost::visible(const std::string& id) const {
  return std::any_of(panels_.begin(), panels_.end(),
                     [&](const Open& open) { return open.id == id && open.visible; });
}

}  // namespace kvloupe::shell
