// One view on a page of its own: an exported figure.
#pragma once

#include "app/figure/gui_context.h"
#include "app/panels/panel.h"

namespace kvloupe::figure {

// Fills the display with the panel; call inside a frame. Says so where the display is too small for
// all of it.
void figure_page_ui(panels::DrawContext& context, panels::Panel& panel);
// Fonts for the scripts of the place's trace. Call between frames.
void prepare_fonts(GuiContext& gui, const state::Place& place);

}  // namespace kvloupe::figure
