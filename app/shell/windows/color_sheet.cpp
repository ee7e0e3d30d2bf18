#include "app/shell/windows/color_sheet.h"

#include "app/widgets/meanings.h"

#include <algorithm>

namespace kvloupe::shell {

void ColorSheet::draw(const widgets::Palette& palette) {
  constexpr const char* kId = "Colours";
  if (opening_) {
    opening_ = false;
    ImGui::OpenPopup(kId);
  }
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  const ImVec2 room(viewport->Size.x - widgets::em(2), viewport->Size.y - widgets::em(2));
  ImGui::SetNextWindowPos(viewport->GetCenter(), ImGuiCond_Always, {0.5F, 0.5F});
  ImGui::SetNextWindowSize({std::min(widgets::em(46), room.x), 0});
  ImGui::SetNextWindowSizeConstraints({0, 0}, room);
  if (!ImGui::BeginPopup(kId, ImGuiWindowFlags_NoSavedSettings)) return;
  {
    const widgets::FontScope title(widgets::Type::Title);
    widgets::text_colored(palette.text, "Colours");
  }
  widgets::text_wrapped(palette.muted, "They mean the same in every view and in every figure.");
  widgets::meanings_ui(palette);
  ImGui::EndPopup();
}

}  // namespace kvloupe::shell
