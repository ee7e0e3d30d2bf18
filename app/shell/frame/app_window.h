// The Explore workspace in a GLFW window, one frame at a time: the program loops over it, tests
// drive it.
#pragma once

#include "app/figure/image.h"
#include "app/shell/explorer.h"
#include "app/shell/frame/window.h"

#include <memory>

namespace kvloupe::shell {

class AppWindow {
 public:
  struct Options {
    WindowOptions window;
    Settings settings;
    bool remember = true;  // layout, settings and recent files are kept for the next start
    bool vsync = true;
    state::Traces::Opener opener = state::open_trace;
  };
  explicit AppWindow(Options options);  // throws Error{Input} without a display
  ~AppWindow();
  AppWindow(const AppWindow&) = delete;
  AppWindow& operator=(const AppWindow&) = delete;

  state::Workspace& workspace();
  Explorer& explorer();
  figure::GuiContext& gui();
  // Draws one frame and shows it. False when the window was closed.
  bool frame();
  // Sleeps until there is something to draw.
  void wait();
  // The pixels of the last frame.
  figure::Image read_pixels();
  // Called after the frame's Render and before it is shown.
  std::function<void()> after_render;
  // One frame of so many goes to the screen, and each that `after_render` looks at. For tests: without
  // a GPU, pixels take four fifths of a frame's time, and a test that clicks looks at few of them.
  int shown_of = 1;

 private:
  void show_frame();

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvloupe::shell
