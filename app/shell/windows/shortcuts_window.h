// All commands with their keys: found by any word, and given other keys by pressing them.
#pragma once

#include "app/shell/commands/key_choices.h"
#include "app/widgets/palette.h"

#include <string>
#include <vector>

namespace kvloupe::shell {

class ShortcutsWindow {
 public:
  void open() { opening_ = true; }
  // Changes `choices`; the commands follow when they are applied.
  void draw(const std::vector<Command>& commands, KeyChoices& choices,
            const widgets::Palette& palette);

 private:
  void head_ui(KeyChoices& choices, const widgets::Palette& palette);
  bool is_free(ImGuiKeyChord chord, const std::string& command,
               const std::vector<Command>& commands);
  void row_ui(const Command& command, const std::vector<Command>& commands, KeyChoices& choices,
              const widgets::Palette& palette);
  void take_keys(const std::vector<Command>& commands, KeyChoices& choices);

  bool opening_ = false;
  std::string query_;
  std::string pressing_;  // id of the command whose keys are pressed next
  std::string problem_;   // why those that were pressed cannot be its
};

}  // namespace kvloupe::shell
