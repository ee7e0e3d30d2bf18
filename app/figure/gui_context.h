// The Dear ImGui, ImPlot and ImPlot3D contexts with the program's style and fonts. The window, the headless
// renderer and the tests all draw through one of these, so that a figure looks like the window.
#pragma once

#include "app/widgets/fonts.h"
#include "app/widgets/palette.h"

#include <cstdint>
#include <string>

struct ImPlotContext;
struct ImPlot3DContext;

namespace kvloupe::figure {

class GuiContext {
 public:
  // font: a family in place of Inter; see widgets::load_fonts.
  explicit GuiContext(const std::string& font = {});
  ~GuiContext();
  GuiContext(const GuiContext&) = delete;
  GuiContext& operator=(const GuiContext&) = delete;

  // scale: of everything, on top of what the framebuffer says.
  void apply_style(widgets::ThemeKind theme, float scale,
                   widgets::Colors colors = widgets::Colors::Usual);
  // Lines and areas without the soft edges that only pixels need, until a style is applied.
  void draw_hard_edges();
  const widgets::Palette& palette() const { return *palette_; }
  widgets::ThemeKind theme() const { return palette_->kind; }
  float scale() const { return scale_; }
  ImGuiContext* imgui() const { return imgui_; }
  widgets::Fonts& fonts() { return fonts_; }
  std::uint64_t glyph_bytes() const;  // of the textures that hold them, here and on the device

 private:
  ImGuiContext* imgui_ = nullptr;
  ImPlotContext* implot_ = nullptr;
  ImPlot3DContext* implot3d_ = nullptr;
  widgets::Fonts fonts_;
  const widgets::Palette* palette_ = nullptr;
  float scale_ = 1.0F;
};

}  // namespace kvloupe::figure
