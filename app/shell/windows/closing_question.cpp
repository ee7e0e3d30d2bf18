#include "app/shell/windows/closing_question.h"

#include "app/widgets/figure.h"

namespace kvloupe::shell {

void ClosingQuestion::ask(const std::string& what) { what_ = what; }

bool ClosingQuestion::draw(const widgets::Palette& palette) {
  constexpr const char* kId = "Close the window?";
  if (what_.empty()) return false;
  if (!ImGui::IsPopupOpen(kId)) ImGui::OpenPopup(kId);
  ImGui::SetNextWindowPos(ImGui::GetMainViewport()->GetCenter(), ImGuiCond_Always, {0.5F, 0.5F});
  ImGui::SetNextWindowSize({widgets::em(30), 0});
  if (!ImGui::BeginPopupModal(kId, nullptr,
                              ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoResize))
    return false;
  widgets::text_wrapped(palette.text, what_);
  ImGui::Dummy({0, widgets::em(0.3F)});
  const bool closes = ImGui::Button("End it and close");
  ImGui::SameLine();
  const bool stays = ImGui::Button("Keep it running") || ImGui::IsKeyPressed(ImGuiKey_Escape);
  if (closes || stays) {
    what_.clear();
    ImGui::CloseCurrentPopup();
  }
  ImGui::EndPopup();
  return closes;
}

}  // namespace kvloupe::shell
