// Pictures in turn, as an animated GIF file that repeats without end.
#pragma once

#include "app/figure/image.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::figure {

class GifWriter {
 public:
  // Shown for so many hundredths of a second. Each has 256 colours of its own.
  void add(const Image& image, int hundredths);
  // As large as the largest picture; the others leave their margin white. Throws Error{Internal}.
  std::string take();

 private:
  struct Frame {
    int width, height, hundredths;
    std::vector<std::uint8_t> colors;  // 256 times red, green, blue
    std::vector<std::uint8_t> pixels;
  };
  std::vector<Frame> frames_;
};

}  // namespace kvloupe::figure
