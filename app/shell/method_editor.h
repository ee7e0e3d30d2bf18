// The controls with which a method is chosen and tuned, made from what the catalogue says of it.
#pragma once

#include "app/shell/method_draft.h"
#include "app/shell/workspace.h"

#include <array>
#include <string>

namespace kvloupe::widgets {
struct Palette;
}

namespace kvloupe::shell {

class MethodEditor {
 public:
  // The button that names the method of a slot; pressed, it opens the editor.
  void draw(Workspace& workspace, const widgets::Palette& palette, Slot slot);

 private:
  void popup_ui(Workspace& workspace, const widgets::Palette& palette, Slot slot);
  // Recorded runs, then all methods; true when another method was taken.
  static void runs_ui(Workspace& workspace, const widgets::Palette& palette, Slot slot);
  bool methods_ui(Workspace& workspace, const widgets::Palette& palette, MethodDraft& draft);
  static void help_ui(const widgets::Palette& palette, const selection::MethodInfo& method);

  std::array<MethodDraft, 2> drafts_;
  std::string problem_;
  std::string query_;
};

}  // namespace kvloupe::shell
