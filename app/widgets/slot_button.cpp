#include "app/widgets/slot_button.h"

#include "app/widgets/tooltip.h"

namespace kvloupe::widgets {

bool slot_button_ui(const Palette& palette, state::Slot slot, bool here) {
  const ImU32 color = color_of_slot(palette, slot);
  const char letter[] = {state::letter_of(slot), 0};
  ImGui::PushStyleColor(ImGuiCol_Button, here ? color : palette.raised);
  ImGui::PushStyleColor(ImGuiCol_Text, here ? ink_on(color) : palette.muted);
  const bool clicked = ImGui::SmallButton(letter);
  ImGui::PopStyleColor(2);
  if (ImGui::IsItemHovered()) tooltip("Show as method %s", letter);
  return clicked;
}

}  // namespace kvloupe::widgets
