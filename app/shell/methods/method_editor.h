// The controls with which a method is chosen and tuned, made from what the catalogue says of it.
#pragma once

#include "app/shell/methods/method_finder.h"
#include "app/shell/methods/method_knobs.h"
#include "app/state/questions/how_it_ran/runs.h"
#include "app/state/workspace.h"

#include <array>

namespace kvloupe::widgets {
struct Palette;
}

namespace kvloupe::shell {

class MethodEditor {
 public:
  // The card of a slot's method, as wide as that: its name and budget, then as much of what is known of it
  // as has room; pressed, it opens the editor.
  void draw(state::Workspace& workspace, const widgets::Palette& palette, state::Slot slot,
            float width);

 private:
  void popup_ui(state::Workspace& workspace, const widgets::Palette& palette, state::Slot slot);
  // Recorded runs, then all methods; true when another method was taken.
  static void runs_ui(state::Workspace& workspace, const widgets::Palette& palette,
                      state::Slot slot);
  bool methods_ui(state::Workspace& workspace, const widgets::Palette& palette,
                  state::MethodDraft& draft);
  static void help_ui(const widgets::Palette& palette, const selection::MethodInfo& method);

  state::LastAnswer<state::UnavailableQuestion> unavailable_;
  std::array<MethodKnobs, 2> knobs_;
  MethodFinder finder_;
};

}  // namespace kvloupe::shell
