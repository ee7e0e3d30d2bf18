// What each colour means, on demand.
#pragma once

#include "app/widgets/palette.h"

namespace kvloupe::shell {

class ColorSheet {
 public:
  void open() { opening_ = true; }
  void draw(const widgets::Palette& palette);

 private:
  bool opening_ = false;
};

}  // namespace kvloupe::shell
