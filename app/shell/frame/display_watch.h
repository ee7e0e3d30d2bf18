// What happens when the display goes away under the window: Xlib would end the program without a
// word that anybody understands, and with what the user did unsaved.
#pragma once

#include <functional>

namespace kvloupe::shell {

// One at a time, made by the thread that draws.
class DisplayWatch {
 public:
  // From now on the loss of the display runs `save`, says one sentence and ends the program with the
  // exit code of a failure. Nothing else is torn down: that would ask the display again.
  explicit DisplayWatch(std::function<void()> save);
  ~DisplayWatch();
  DisplayWatch(const DisplayWatch&) = delete;
  DisplayWatch& operator=(const DisplayWatch&) = delete;
};

// Throws Error{Input} when the graphics driver has lost the context of this thread.
void require_graphics();

}  // namespace kvloupe::shell
