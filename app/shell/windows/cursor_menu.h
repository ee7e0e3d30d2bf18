// What can be done with the thing under the mouse: the menu of a right click, and copying.
#pragma once

#include "app/shell/frame/panel_host.h"
#include "app/shell/windows/exporter.h"
#include "app/shell/windows/messages.h"
#include "app/state/workspace.h"
#include "app/widgets/palette.h"

#include <optional>
#include <string>

namespace kvloupe::shell {

// The words of what the mouse points at, and of the place that they are true of.
std::string copied_text(const state::Pointed& pointed);

class CursorMenu {
 public:
  CursorMenu(state::Workspace& workspace, PanelHost& panels, Exporter& exporter, Messages& messages)
      : workspace_(workspace), panels_(panels), exporter_(exporter), messages_(messages) {}

  // Of what the mouse pointed at in the last frame.
  bool can_copy() const;
  void copy();
  // The command that opens the window there: at the place and keys, in the view; of the place shown where
  // the mouse points at nothing.
  void copy_link();
  // After all views. Opens where the right button was clicked over one; `folder` is where exports begin.
  void draw(const widgets::Palette& palette, const std::string& folder);

 private:
  void copy_ui(const state::Pointed& pointed);
  void keys_ui(const state::Pointed& pointed);
  void view_ui(const state::Pointed& pointed, const std::string& folder);
  void copy_link(const state::Pointed& pointed, const state::ViewInfo* view);
  void copy_text(const std::string& text);
  // Moves the selection there, with its keys where it has any.
  void go_to(const state::Pointed& pointed, bool watch, const std::string& perspective);

  state::Workspace& workspace_;
  PanelHost& panels_;
  Exporter& exporter_;
  Messages& messages_;
  std::optional<state::Pointed> clicked_;
};

}  // namespace kvloupe::shell
