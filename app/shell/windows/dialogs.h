// What opens over the window: the command palette and "go to".
#pragma once

#include "app/shell/commands/command_list.h"
#include "app/state/workspace.h"
#include "app/widgets/palette.h"

#include <string>
#include <vector>

namespace kvloupe::shell {

class CommandPalette {
 public:
  void open() { opening_ = true; }
  void draw(const std::vector<Command>& commands, const widgets::Palette& palette);

 private:
  bool opening_ = false;
  std::string query_;
  int index_ = 0;
};

class GotoDialog {
 public:
  void open() { opening_ = true; }
  void draw(state::Workspace& workspace, const widgets::Palette& palette);

 private:
  bool opening_ = false;
  std::string text_, problem_;
};

}  // namespace kvloupe::shell
