// What is known of a method: its idea, its parameters as they are chosen, its paper.
#pragma once

#include "app/state/workspace.h"
#include "app/widgets/palette.h"
#include "core/selection/spec/method_spec.h"

namespace kvloupe::shell {

// Paper, what it follows and where it differs, as a table.
void method_help_ui(const widgets::Palette& palette, const selection::MethodInfo& method);
// Of the method shown, or of the one that a view shows in its place.
void method_card_ui(state::Workspace& workspace, const widgets::Palette& palette);

}  // namespace kvloupe::shell
