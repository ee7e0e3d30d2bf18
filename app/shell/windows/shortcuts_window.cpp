#include "app/shell/windows/shortcuts_window.h"

#include "app/widgets/figure.h"

#include <fmt/format.h>
#include <imgui_internal.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <optional>

namespace kvloupe::shell {
namespace {

std::string keys_text(const Command& command) {
  std::string text;
  for (const ImGuiKeyChord chord : command.keys)
    text += (text.empty() ? "" : ", ") + text_of(chord);
  return text;
}

bool is_modifier(ImGuiKey key) {
  return (key >= ImGuiKey_LeftCtrl && key <= ImGuiKey_RightSuper) ||
         (key >= ImGuiKey_ReservedForModCtrl && key <= ImGuiKey_ReservedForModSuper);
}

// What was pressed in this frame, with the modifiers held. Nothing else of the window gets the keys.
std::optional<ImGuiKeyChord> pressed_chord(ImGuiID owner) {
  std::optional<ImGuiKeyChord> pressed;
  for (int i = ImGuiKey_NamedKey_BEGIN; i < ImGuiKey_GamepadStart; ++i) {
    const auto key = static_cast<ImGuiKey>(i);
    if (is_modifier(key)) continue;
    ImGui::SetKeyOwner(key, owner);
    if (ImGui::IsKeyPressed(key, false)) pressed = ImGui::GetIO().KeyMods | key;
  }
  return pressed;
}

}  // namespace

void ShortcutsWindow::draw(const std::vector<Command>& commands, KeyChoices& choices,
                           const widgets::Palette& palette) {
  constexpr const char* kId = "Shortcuts";
  if (opening_) {
    opening_ = false;
    query_.clear();
    pressing_.clear();
    problem_.clear();
    ImGui::OpenPopup(kId);
  }
  const ImVec2 room = ImGui::GetMainViewport()->WorkSize;
  ImGui::SetNextWindowPos(ImGui::GetMainViewport()->GetCenter(), ImGuiCond_Always, {0.5F, 0.5F});
  ImGui::SetNextWindowSize({std::min(room.x - widgets::em(1), widgets::em(48)),
                            std::min(room.y - widgets::em(1), widgets::em(40))});
  if (!ImGui::BeginPopup(kId, ImGuiWindowFlags_NoSavedSettings)) return;
  if (!pressing_.empty())
    take_keys(commands, choices);
  else
    widgets::escape_closes_popup();
  head_ui(choices, palette);
  const float below = 2 * ImGui::GetTextLineHeightWithSpacing();
  constexpr ImGuiTableFlags kFlags = ImGuiTableFlags_ScrollY | ImGuiTableFlags_RowBg |
                                     ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_PadOuterX;
  if (ImGui::BeginTable("commands", 3, kFlags, {0, ImGui::GetContentRegionAvail().y - below})) {
    ImGui::TableSetupColumn("command", ImGuiTableColumnFlags_WidthStretch, 1.5F);
    ImGui::TableSetupColumn("keys", ImGuiTableColumnFlags_WidthStretch, 1);
    ImGui::TableSetupColumn("reset", ImGuiTableColumnFlags_WidthFixed, widgets::em(3.4F));
    bool any = false;
    for (const Command& command : commands) {
      const std::string text = command.title + " " + command.id + " " + keys_text(command);
      if (match_score(query_, text) < 0) continue;
      any = true;
      row_ui(command, commands, choices, palette);
    }
    ImGui::EndTable();
    if (!any)
      widgets::text_colored(palette.muted,
                            fmt::format("Nothing is called \u201C{}\u201D.", query_));
  }
  widgets::text_wrapped(palette.muted,
                        "Drag pans a map, the wheel zooms, a double click shows all. A right click "
                        "lists what can be done with the thing under the mouse.");
  ImGui::EndPopup();
}

void ShortcutsWindow::head_ui(KeyChoices& choices, const widgets::Palette& palette) {
  const float button = ImGui::CalcTextSize("Reset all").x + 2 * ImGui::GetStyle().FramePadding.x;
  if (ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
  ImGui::SetNextItemWidth(-button - ImGui::GetStyle().ItemSpacing.x);
  ImGui::InputTextWithHint("##query", "Search by any word or key", &query_);
  ImGui::SameLine();
  ImGui::BeginDisabled(choices.empty());
  if (ImGui::Button("Reset all")) {
    choices.clear();
    pressing_.clear();
    problem_.clear();
  }
  ImGui::EndDisabled();
  if (!problem_.empty())
    widgets::text_colored(palette.warning, problem_);
  else
    widgets::text_colored(
        palette.muted, pressing_.empty()
                           ? "Click keys to set others."
                           : "Press the new keys. Escape leaves them, Backspace takes them away.");
}

// False, with the reason, where another command has these keys now.
bool ShortcutsWindow::is_free(ImGuiKeyChord chord, const std::string& command,
                              const std::vector<Command>& commands) {
  const Command* holder = holder_of(chord, commands);
  if (holder == nullptr || holder->id == command) return true;
  problem_ = fmt::format("{} belongs to \u201C{}\u201D: press other keys, or change those first.",
                         text_of(chord), holder->title);
  return false;
}

void ShortcutsWindow::row_ui(const Command& command, const std::vector<Command>& commands,
                             KeyChoices& choices, const widgets::Palette& palette) {
  ImGui::PushID(command.id.c_str());
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  ImGui::AlignTextToFramePadding();
  widgets::text_colored(palette.text,
                        widgets::elided(command.title, ImGui::GetContentRegionAvail().x));
  ImGui::TableNextColumn();
  const bool here = pressing_ == command.id;
  const std::string keys = keys_text(command);
  const std::string label = here ? "press keys\u2026" : keys.empty() ? "\u2013" : keys;
  ImGui::PushStyleColor(ImGuiCol_Text, here ? palette.accent : palette.text);
  const std::string shown = widgets::elided(label, ImGui::GetContentRegionAvail().x);
  if (ImGui::Button((shown + "###keys").c_str(), {-1, 0})) {
    pressing_ = here ? "" : command.id;
    problem_.clear();
  }
  ImGui::PopStyleColor();
  ImGui::TableNextColumn();
  if (choices.contains(command.id) && ImGui::Button("Reset") &&
      std::all_of(command.default_keys.begin(), command.default_keys.end(),
                  [&](ImGuiKeyChord chord) { return is_free(chord, command.id, commands); }))
    choices.erase(command.id);
  ImGui::PopID();
}

void ShortcutsWindow::take_keys(const std::vector<Command>& commands, KeyChoices& choices) {
  const auto chord = pressed_chord(ImGui::GetID("keys"));
  if (!chord) return;
  if (*chord == ImGuiKey_Escape || *chord == ImGuiKey_Backspace) {
    if (*chord == ImGuiKey_Backspace) choices[pressing_] = "";
    pressing_.clear();
    problem_.clear();
    return;
  }
  if (!is_free(*chord, pressing_, commands)) return;
  choices[pressing_] = text_of(*chord);
  pressing_.clear();
  problem_.clear();
}

}  // namespace kvloupe::shell
