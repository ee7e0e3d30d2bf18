// What the speaker of a presentation sees, and the audience does not: the note of what is shown, what
// comes next, and the clock. It is a window of the desktop, on another screen where there is one.
#pragma once

#include "app/widgets/palette.h"

#include <chrono>
#include <cstddef>
#include <string>

namespace kvloupe::shell {

// What is shown: a page of a tour, a note, or a chunk.
struct Slide {
  std::string title;
  std::string text;                   // may be empty
  std::string next;                   // the title of the one after it; empty: this is the last
  std::size_t number = 0, count = 0;  // from 1; no count: there is nothing to step through yet
};

class SpeakerWindow {
 public:
  // The presentation begins: so does the clock, and where there is another screen the window opens.
  void begin();
  void end() { open_ = false; }
  // False: the desktop (Wayland) does not let a program place a second window.
  static bool can_open();
  bool is_open() const { return open_; }
  void toggle() { open_ = !open_; }

  // Before ImGui's frame: it makes windows of the desktop only where it is told to.
  void before_frame() const;
  // The step that its buttons ask for: 1, -1, or 0 for none.
  int draw(const widgets::Palette& palette, const Slide& slide);

 private:
  void clock_ui(const widgets::Palette& palette);

  bool open_ = false;
  std::chrono::steady_clock::time_point began_;
};

}  // namespace kvloupe::shell
