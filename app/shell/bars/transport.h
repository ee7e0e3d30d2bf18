// The bar on top, two lines that every view goes by: the place, the span that is followed and the chunks
// that numbers are over; then the methods A and B, which one is shown, and the device.
#pragma once

#include "app/shell/bars/bar_pickers.h"
#include "app/shell/methods/method_editor.h"
#include "app/state/workspace.h"

namespace kvloupe::shell {

class Transport {
 public:
  void draw(state::Workspace& workspace, const widgets::Palette& palette);
  // Advances the replay; once a frame.
  void tick(state::Workspace& workspace);
  bool playing() const { return playing_; }
  void toggle() { playing_ = !playing_; }
  // Nothing of a closed trace.
  void forget() { methods_ = MethodEditor(); }

 private:
  void buttons_ui(state::Workspace& workspace, const widgets::Palette& palette);
  void place_line_ui(state::Workspace& workspace, const widgets::Palette& palette);
  static void chunk_ui(state::Workspace& workspace, float width);
  static void layer_ui(state::Workspace& workspace, float width);
  static void head_ui(state::Workspace& workspace, float width);
  void methods_line_ui(state::Workspace& workspace, const widgets::Palette& palette);
  static void device_ui(state::Workspace& workspace, const widgets::Palette& palette, float width);

  bool playing_ = false;
  bool loop_ = true;
  double last_step_ = 0;
  float chunks_per_second_ = 4.0F;
  MethodEditor methods_;
  SpanPicker span_;
};

}  // namespace kvloupe::shell
