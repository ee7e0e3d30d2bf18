// How far a drawn picture is from its reference. Another processor or another Mesa shades the edge
// of a glyph a little differently, or moves the edge of a bar by a pixel; nobody sees that. A mark
// that is gone, a line elsewhere, another colour or another digit is seen. The lines of a grid are
// too faint: the numbers at their ends stand for them.
#pragma once

#include "app/figure/headless.h"

#include <string>

namespace kvloupe::figure::testing {

struct PictureDifference {
  bool same_size = true;
  int changed = 0;  // pixels that have another colour
  int lost = 0;     // of these, pixels whose colour is not beside their place either
  Image shown;      // the reference, faint; changed pixels orange, lost ones red

  bool tolerable() const;
  std::string text() const;
};

PictureDifference difference(const Image& got, const Image& reference);

// Throw std::runtime_error: a file that cannot be read or written.
Image read_png(const std::string& path);
// With 16 levels a channel, and so a palette in most cases: a fifth of what png_bytes makes.
void write_reference(const std::string& path, const Image& image);

}  // namespace kvloupe::figure::testing
