// Pixels, and their form as a PNG file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::figure {

struct Image {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgba;  // rows from the top, alpha not multiplied in
};

// `dots_per_inch`: how large it is on paper; 0 says nothing of it.
std::string png_bytes(const Image& image, double dots_per_inch = 0);
// A part of a PNG file: how long its data is, what it is (four letters), the data, and a checksum of both.
std::string png_chunk(std::string_view type, const std::string& data);
std::string big_endian(std::uint32_t value, int bytes = 4);
// Throws Error{Input} for what is no PNG, or a huge one.
Image image_of_png(const std::string& bytes);

}  // namespace kvloupe::figure
