#include "app/figure/apng.h"

#include "core/base/error.h"

#include <algorithm>
#include <cstdint>

namespace kvloupe::figure {
namespace {

constexpr std::size_t kSignature = 8;

struct Chunk {
  std::string type, data;
};

std::vector<Chunk> chunks_of(const std::string& png) {
  std::vector<Chunk> chunks;
  constexpr std::size_t kAround = 12;  // length, type and checksum
  for (std::size_t at = kSignature; at + kAround <= png.size();) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i)
      length = length << 8 | static_cast<unsigned char>(png[at + i]);
    KVLOUPE_CHECK(length <= png.size() - at - kAround);
    chunks.push_back({png.substr(at + 4, 4), png.substr(at + 8, length)});
    at += length + kAround;
  }
  return chunks;
}

// In the upper left corner of a white one.
Image widened(const Image& image, int width, int height) {
  if (image.width == width && image.height == height) return image;
  Image wide{width, height,
             std::vector<std::uint8_t>(
                 4 * static_cast<std::size_t>(width) * static_cast<std::size_t>(height), 255)};
  for (int y = 0; y < image.height; ++y) {
    const auto row = image.rgba.begin() + std::ptrdiff_t{4} * y * image.width;
    std::copy(row, row + std::ptrdiff_t{4} * image.width,
              wide.rgba.begin() + std::ptrdiff_t{4} * y * width);
  }
  return wide;
}

}  // namespace

void ApngWriter::add(const Image& image, int hundredths) { frames_.push_back({image, hundredths}); }

std::string ApngWriter::take() {
  KVLOUPE_CHECK(!frames_.empty());
  int width = 0, height = 0;
  for (const Frame& frame : frames_) {
    width = std::max(width, frame.image.width);
    height = std::max(height, frame.image.height);
  }
  std::string file;
  std::uint32_t sequence = 0;
  const auto count = static_cast<std::uint32_t>(frames_.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const Frame& frame = frames_[i];
    const std::string png = png_bytes(widened(frame.image, width, height));
    const std::vector<Chunk> chunks = chunks_of(png);
    constexpr std::uint32_t kForever = 0;
    if (i == 0) {
      file = png.substr(0, kSignature);
      file += png_chunk("IHDR", chunks.front().data);
      file += png_chunk("acTL", big_endian(count) + big_endian(kForever));
    }
    // Size, place, time, and that nothing of the frame before is looked through.
    file += png_chunk(
        "fcTL", big_endian(sequence++) + big_endian(static_cast<std::uint32_t>(width)) +
                    big_endian(static_cast<std::uint32_t>(height)) + big_endian(0) + big_endian(0) +
                    big_endian(static_cast<std::uint32_t>(frame.hundredths), 2) +
                    big_endian(100, 2) + big_endian(0, 1) + big_endian(0, 1));
    for (const Chunk& chunk : chunks) {
      if (chunk.type != "IDAT") continue;
      if (i == 0)
        file += png_chunk("IDAT", chunk.data);
      else
        file += png_chunk("fdAT", big_endian(sequence++) + chunk.data);
    }
  }
  file += png_chunk("IEND", "");
  frames_.clear();
  return file;
}

}  // namespace kvloupe::figure
