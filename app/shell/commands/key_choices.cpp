#include "app/shell/commands/key_choices.h"

#include <algorithm>
#include <array>
#include <utility>

namespace kvloupe::shell {
namespace {

constexpr std::array<std::pair<ImGuiKeyChord, const char*>, 3> kModifiers{
    {{ImGuiMod_Ctrl, "Ctrl+"}, {ImGuiMod_Shift, "Shift+"}, {ImGuiMod_Alt, "Alt+"}}};
// What ImGui calls otherwise than a keyboard does.
constexpr std::array<std::pair<ImGuiKey, const char*>, 8> kNames{{{ImGuiKey_LeftArrow, "Left"},
                                                                  {ImGuiKey_RightArrow, "Right"},
                                                                  {ImGuiKey_UpArrow, "Up"},
                                                                  {ImGuiKey_DownArrow, "Down"},
                                                                  {ImGuiKey_Equal, "+"},
                                                                  {ImGuiKey_Minus, "-"},
                                                                  {ImGuiKey_LeftBracket, "["},
                                                                  {ImGuiKey_RightBracket, "]"}}};

const char* name_of(ImGuiKey key) {
  for (const auto& [one, name] : kNames)
    if (one == key) return name;
  return ImGui::GetKeyName(key);
}

}  // namespace

std::string text_of(ImGuiKeyChord chord) {
  std::string text;
  for (const auto& [modifier, name] : kModifiers)
    if ((chord & modifier) != 0) text += name;
  return text + name_of(static_cast<ImGuiKey>(chord & ~ImGuiMod_Mask_));
}

std::optional<ImGuiKeyChord> chord_of(std::string_view text) {
  ImGuiKeyChord chord = 0;
  for (const auto& [modifier, name] : kModifiers)
    if (text.starts_with(name)) {
      chord |= modifier;
      text.remove_prefix(std::string_view(name).size());
    }
  for (int key = ImGuiKey_NamedKey_BEGIN; key < ImGuiKey_GamepadStart; ++key)
    if (name_of(static_cast<ImGuiKey>(key)) == text) return chord | key;
  return std::nullopt;
}

void apply_keys(const KeyChoices& choices, std::vector<Command>& commands) {
  for (Command& command : commands) {
    command.keys = command.default_keys;
    const auto chosen = choices.find(command.id);
    if (chosen == choices.end()) continue;
    if (chosen->second.empty())
      command.keys.clear();
    else if (const auto chord = chord_of(chosen->second))
      command.keys = {*chord};
  }
}

const Command* holder_of(ImGuiKeyChord chord, const std::vector<Command>& commands) {
  for (const Command& command : commands)
    if (std::find(command.keys.begin(), command.keys.end(), chord) != command.keys.end())
      return &command;
  return nullptr;
}

}  // namespace kvloupe::shell
