// Every action of the window: one list for menus, shortcuts, the command palette and the shortcut
// sheet. Ids are stable.
#pragma once

#include <imgui.h>

#include <functional>
#include <string>
#include <vector>

namespace kvloupe::shell {

struct Command {
  std::string id;    // "open", "view.kv_map"
  std::string menu;  // "File"; empty: in the palette only
  std::string title;
  std::vector<ImGuiKeyChord> keys;  // the first is shown
  std::function<void()> run;
  std::function<bool()> enabled;  // empty: always
  bool while_typing = false;      // plain keys do not act while a text field has the keyboard

  bool is_enabled() const { return !enabled || enabled(); }
};

// "Ctrl+Shift+O"
std::string shortcut_text(const Command& command);
// Runs the commands whose keys were pressed.
void handle_shortcuts(const std::vector<Command>& commands);
// How well `query` matches as a scattered subsequence; below 0: not at all.
int match_score(const std::string& query, const std::string& text);

}  // namespace kvloupe::shell
