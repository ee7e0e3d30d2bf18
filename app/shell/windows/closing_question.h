// Asks before the window is closed over something that is under way.
#pragma once

#include "app/widgets/palette.h"

#include <string>

namespace kvloupe::shell {

class ClosingQuestion {
 public:
  // `what` would be ended or lost, as a sentence.
  void ask(const std::string& what);
  bool asking() const { return !what_.empty(); }
  // True in the frame in which the user wants to close all the same.
  bool draw(const widgets::Palette& palette);

 private:
  std::string what_;  // empty: nothing is asked
};

}  // namespace kvloupe::shell
