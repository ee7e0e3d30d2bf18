// One view on a page of its own: an exported figure.
#pragma once

#include "app/panels/panel.h"
#include "app/shell/gui_context.h"

namespace kvloupe::shell {

// Fills the display with the panel; call inside a frame.
void figure_page_ui(panels::DrawContext& context, panels::Panel& panel);
// Fonts for the scripts of the open trace. Call between frames.
void prepare_fonts(GuiContext& gui, const Workspace& workspace);

}  // namespace kvloupe::shell
