// The presenter: one view alone and larger, without bars, for an audience.
#include "app/shell/explorer.h"

#include "app/widgets/figure.h"

#include <imgui_internal.h>

namespace kvloupe::shell {

void Explorer::present(bool on) {
  presenting_ = on && workspace_.has_trace();
  presenting_ ? panels_.fill() : panels_.unfill();
  style_changed_ = true;
}

void Explorer::step_presented(int by) {
  if (tour_.is_open()) return tour_.step(by);
  if (!notes_.step(workspace_, by)) workspace_.cursor.step_chunk(by);
}

// A disc around the mouse, which an audience finds at once.
void Explorer::presenter_ui() {
  if (!panels_.fills() || workspace_.traces.tabs().empty()) return present(false);
  const widgets::Palette& palette = gui_.palette();
  if (const std::string text = notes_.text_here(workspace_); !tour_.is_open() && !text.empty()) {
    const widgets::FontScope title(widgets::Type::Title);
    const ImGuiViewport* viewport = ImGui::GetMainViewport();
    const float wrap = viewport->Size.x - widgets::em(2);
    const float height = ImGui::CalcTextSize(text.c_str(), nullptr, false, wrap).y + widgets::em(1);
    if (ImGui::BeginViewportSideBar("##note", nullptr, ImGuiDir_Down, height,
                                    ImGuiWindowFlags_NoSavedSettings))
      widgets::text_wrapped(palette.text, text);
    ImGui::End();
  }
  if (!ImGui::IsMousePosValid()) return;
  const ImVec2 at = ImGui::GetMousePos();
  ImDrawList* draw = ImGui::GetForegroundDrawList();
  draw->AddCircleFilled(at, widgets::em(0.9F), widgets::with_alpha(palette.accent, 0.25F));
  draw->AddCircle(at, widgets::em(0.9F), widgets::with_alpha(palette.accent, 0.8F), 0,
                  widgets::em(0.1F));
}

}  // namespace kvloupe::shell
