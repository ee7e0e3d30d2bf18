// Renders Dear ImGui frames without a display server: EGL's surfaceless platform, or a pbuffer, and
// a framebuffer object.
#pragma once

#include "app/figure/gui_context.h"
#include "app/figure/image.h"

#include <imgui.h>

#include <functional>
#include <memory>
#include <string>

namespace kvloupe::figure {

class HeadlessRenderer {
 public:
  // width, height: pixels of the image at scale 1; `scale` multiplies both and sharpens all that is
  // drawn. font: as GuiContext takes it. Throws Error{Input} when the machine offers no OpenGL.
  HeadlessRenderer(int width, int height, float scale, const std::string& font = {});
  ~HeadlessRenderer();
  HeadlessRenderer(const HeadlessRenderer&) = delete;
  HeadlessRenderer& operator=(const HeadlessRenderer&) = delete;

  GuiContext& gui();
  int most_height() const;  // that an image of this scale may have on this machine
  // One frame. `draw` runs between NewFrame and Render.
  void frame(const std::function<void()>& draw);
  Image read() const;
  Image texture(ImTextureID id) const;  // whole, as it was filled

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What the framebuffer that is bound holds, without its alpha.
Image framebuffer_image(int width, int height);

}  // namespace kvloupe::figure
