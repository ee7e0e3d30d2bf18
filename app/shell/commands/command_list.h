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
  std::string menu;  // "File", "View/Panels"; empty: in the palette only
  std::string title;
  std::vector<ImGuiKeyChord> keys;  // the first is shown
  std::function<void()> run;
  std::function<bool()> enabled;  // empty: always
  bool while_typing = false;      // plain keys do not act while a text field has the keyboard
  std::vector<ImGuiKeyChord> default_keys = {};  // where the user chose no others (key_choices.h)
  std::function<bool()> checked{};               // of a choice: it is the one that holds

  bool is_enabled() const { return !enabled || enabled(); }
};

// Its layouts follow its commands.
inline constexpr const char* kLayoutsMenu = "View/Layouts";

// "Ctrl+Shift+O"
std::string shortcut_text(const Command& command);
// Runs the first command whose keys were pressed: one press does one thing. Not while a popup has the keyboard to itself.
void handle_shortcuts(const std::vector<Command>& commands);
// How well the text has all words of the query, where its own words begin best; below 0: not at all.
int match_score(const std::string& query, const std::string& text);
// The commands that can run now and have all words in title and id, best first, by their index. A
// title that has them all comes before every id.
std::vector<std::size_t> matching(const std::string& query, const std::vector<Command>& commands);

}  // namespace kvloupe::shell
