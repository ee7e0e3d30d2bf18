// Pixels, and their form as a PNG file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::figure {

struct Image {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgba;  // rows from the top, alpha not multiplied in
};

std::string png_bytes(const Image& image);
// Throws Error{Input} for what is no PNG, or a huge one.
Image image_of_png(const std::string& bytes);

}  // namespace kvloupe::figure
