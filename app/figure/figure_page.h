// One view on a page of its own: an exported figure.
#pragma once

#include "app/figure/gui_context.h"
#include "app/panels/panel.h"

#include <functional>
#include <string>

namespace kvloupe::figure {

// Figures are read at arm's length: larger than the window's text.
inline constexpr float kFigureTextScale = 1.2F;

// Fills the display with what `draw` draws; call inside a frame. Returns how far what it drew in the
// frame before passes the page's end.
float page_ui(const std::function<void()>& draw);
// Fills the display with the panel, as page_ui(), with its letter in the margin where it has one. Says so
// where the display is too small for all of it.
float figure_page_ui(panels::DrawContext& context, panels::Panel& panel,
                     const std::string& letter = {});
// Fonts for the scripts of the place's trace. Call between frames.
void prepare_fonts(GuiContext& gui, const state::Place& place);

}  // namespace kvloupe::figure
