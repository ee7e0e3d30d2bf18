// Pictures in turn, as an animated PNG file (PNG specification, third edition, 11.3.6) that repeats without end:
// in the colours that they have.
#pragma once

#include "app/figure/image.h"

#include <string>
#include <vector>

namespace kvloupe::figure {

class ApngWriter {
 public:
  // Shown for so many hundredths of a second.
  void add(const Image& image, int hundredths);
  // As large as the largest picture; the others have a white margin. At least one was added. Throws
  // Error{Internal}.
  std::string take();

 private:
  struct Frame {
    Image image;
    int hundredths;
  };
  std::vector<Frame> frames_;
};

}  // namespace kvloupe::figure
