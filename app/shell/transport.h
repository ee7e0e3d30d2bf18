// The bar on top: replay through the chunks, place, methods, which one is shown, device.
#pragma once

#include "app/shell/method_editor.h"
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
  void place_ui(state::Workspace& workspace, const widgets::Palette& palette);
  void methods_ui(state::Workspace& workspace, const widgets::Palette& palette);
  void device_ui(state::Workspace& workspace, const widgets::Palette& palette);

  bool playing_ = false;
  bool loop_ = true;
  double last_step_ = 0;
  float chunks_per_second_ = 4.0F;
  MethodEditor methods_;
};

}  // namespace kvloupe::shell
