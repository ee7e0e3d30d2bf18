// One panel over all of the others: a double click on its tab, and the presenter.
#include "app/panels/view_frame.h"
#include "app/shell/frame/panel_host.h"
#include "app/widgets/figure.h"

namespace kvloupe::shell {

using state::PlacedView;
using state::Spot;

void PanelHost::fill(const std::string& id) {
  filled_ = id.empty() ? sources_[window_in_front().source].id : id;
  filled_in_ = &now();
}

// The large one that is seen; before anything was drawn the first of the workspace.
PanelHost::Window& PanelHost::window_in_front() {
  const state::Perspective& here = now();
  for (const Spot spot : {Spot::Large, Spot::Beside, Spot::Below, Spot::BesideBelow})
    for (const PlacedView& placed : here.views)
      if (Window* window = find(placed.id, here);
          placed.spot == spot && window != nullptr && window->visible)
        return *window;
  return *find(here.views.front().id, here);
}

void PanelHost::filled_ui(const figure::GuiContext& gui) {
  shown_before_ =
      nullptr;  // what the docks and what is torn off need of a frame is not there at once
  submit_dock_spaces(nullptr);
  for (Window& window : windows_) window.visible = false;
  // Of another workspace its own view.
  if (filled_in_ != shown_) fill();
  Window* window = find(filled_, *shown_);
  if (window == nullptr) return unfill();
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  ImGui::SetNextWindowPos(viewport->WorkPos);
  ImGui::SetNextWindowSize(viewport->WorkSize);
  constexpr ImGuiWindowFlags kFlags =
      ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoDocking |
      ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus;
  window->visible = ImGui::Begin("###filled", nullptr, kFlags);
  if (window->visible) {
    Source& source = sources_[window->source];
    {
      const widgets::FontScope title(widgets::Type::Title);
      widgets::text_colored(gui.palette().text, source.title);
    }
    const float close = ImGui::GetFrameHeight();
    // The bar above may not be there.
    if (source.view != nullptr && !source.view->shows_results && workspace_.has_trace()) {
      std::string caption;
      as_seen(source.id, [&](const auto&) { caption = panels::place_caption(workspace_.place()); });
      ImGui::SameLine(0, widgets::em(1));
      const float room = ImGui::GetContentRegionAvail().x - close - widgets::em(1);
      widgets::text_colored(gui.palette().muted, widgets::elided(caption, room));
    }
    ImGui::SameLine(ImGui::GetContentRegionMax().x - close);
    const bool back = ImGui::Button("\u00D7##fill", {close, 0});
    if (ImGui::IsItemHovered()) widgets::tooltip("Back to the others (Escape)");
    contents_ui(*window, source.lock.look_up(workspace_.traces), gui);
    if (back) unfill();
  }
  ImGui::End();
}

}  // namespace kvloupe::shell
