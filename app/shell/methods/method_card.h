// What is known of a method: its idea, its parameters and their controls, its paper.
#pragma once

#include "app/shell/methods/method_knobs.h"
#include "app/state/workspace.h"
#include "app/widgets/palette.h"
#include "core/selection/spec/method_spec.h"

#include <array>

namespace kvloupe::shell {

// Paper, what it follows and where it differs, as a table.
void method_help_ui(const widgets::Palette& palette, const selection::MethodInfo& method);

class MethodCard {
 public:
  // Of the method shown, whose parameters can be changed, or of the one that a view shows in its place.
  void draw(state::Workspace& workspace, const widgets::Palette& palette);

 private:
  std::array<MethodKnobs, 2> knobs_;  // of A and B
};

}  // namespace kvloupe::shell
