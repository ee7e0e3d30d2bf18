// See command_list.h.
#include "app/shell/command_list.h"

#include <algorithm>
#include <cctype>

namespace kvloupe::shell {

namespace {

// Like ImGui::IsKeyChordPressed, with key repeat: a held arrow scrubs.
bool chord_pressed(ImGuiKeyChord chord) {
  return (chord & ImGuiMod_Mask_) == ImGui::GetIO().KeyMods &&
         ImGui::IsKeyPressed(static_cast<ImGuiKey>(chord & ~ImGuiMod_Mask_), true);
}

}  // namespace

std::string shortcut_text(const Command& command) {
  if (command.keys.empty()) return {};
  const ImGuiKeyChord chord = command.keys.front();
  std::string text;
  if ((chord & ImGuiMod_Ctrl) != 0) text += "Ctrl+";
  if ((chord & ImGuiMod_Shift) != 0) text += "Shift+";
  if ((chord & ImGuiMod_Alt) != 0) text += "Alt+";
  const auto key = static_cast<ImGuiKey>(chord & ~ImGuiMod_Mask_);
  switch (key) {
    case ImGuiKey_LeftArrow:
      return text + "Left";
    case ImGuiKey_RightArrow:
      return text + "Right";
    case ImGuiKey_UpArrow:
      return text + "Up";
    case ImGuiKey_DownArrow:
      return text + "Down";
    case ImGuiKey_Equal:
      return text + "+";
    case ImGuiKey_Minus:
      return text + "-";
    case ImGuiKey_LeftBracket:
      return text + "[";
    case ImGuiKey_RightBracket:
      return text + "]";
    default:
      return text + ImGui::GetKeyName(key);
  }
}

void handle_shortcuts(const std::vector<Command>& commands) {
  // A popup (dialog, palette, list) has the keyboard to itself.
  if (ImGui::IsPopupOpen(nullptr, ImGuiPopupFlags_AnyPopupId | ImGuiPopupFlags_AnyPopupLevel))
    return;
  const bool typing = ImGui::GetIO().WantTextInput;
  for (const Command& command : commands)
    for (const ImGuiKeyChord chord : command.keys) {
      const bool modified = (chord & (ImGuiMod_Ctrl | ImGuiMod_Alt)) != 0;
      if (typing && !modified && !command.while_typing) continue;
      if (chord_pressed(chord) && command.is_enabled()) {
        command.run();
        break;
      }
    }
}

int match_score(const std::string& query, const std::string& text) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  int score = 0;
  std::size_t at = 0;
  bool joined = false;
  for (const char wanted : query) {
    if (wanted == ' ') continue;
    const std::size_t from = at;
    while (at < text.size() && lower(text[at]) != lower(wanted)) ++at;
    if (at == text.size()) return -1;
    const bool word_begins = at == 0 || text[at - 1] == ' ' || text[at - 1] == '.';
    score += (joined && at == from ? 4 : 0) + (word_begins ? 3 : 0) + 1;
    joined = true;
    ++at;
  }
  return score;
}

}  // namespace kvloupe::shell
