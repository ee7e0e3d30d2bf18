#include "app/figure/image.h"

#include "core/base/error.h"

#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::figure {

std::string big_endian(std::uint32_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(value >> (8 * i) & 0xFF);
  return text;
}

std::string png_chunk(std::string_view type, const std::string& data) {
  const std::string body = std::string(type) + data;
  const auto sum =
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + body +
         big_endian(static_cast<std::uint32_t>(sum));
}

std::string png_bytes(const Image& image, double dots_per_inch) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width);
  header.height = static_cast<png_uint_32>(image.height);
  header.format = PNG_FORMAT_RGBA;
  png_alloc_size_t size = 0;
  const auto check = [&](int done) {
    if (done == 0)
      throw Error(ErrorKind::Internal, "the PNG could not be made", header.message,
                  "please report this");
  };
  check(png_image_write_get_memory_size(header, size, 0, image.rgba.data(), 0, nullptr));
  std::string bytes(size, '\0');
  check(png_image_write_to_memory(&header, bytes.data(), &size, 0, image.rgba.data(), 0, nullptr));
  bytes.resize(size);
  if (dots_per_inch <= 0) return bytes;
  // Behind the header, the first of its parts. A metre has 39.37 inches.
  constexpr std::size_t kHeaderEnd = 33;
  const std::string dots =
      big_endian(static_cast<std::uint32_t>(std::lround(dots_per_inch / 0.0254)));
  constexpr std::uint32_t kMetre = 1;
  return bytes.insert(kHeaderEnd, png_chunk("pHYs", dots + dots + big_endian(kMetre, 1)));
}

Image image_of_png(const std::string& bytes) {
  constexpr png_uint_32 kMostPixels = 1U << 28;
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  const auto refuse = [&](const std::string& why) {
    png_image_free(&header);
    throw input_error("the picture cannot be read", why, "draw it again");
  };
  if (png_image_begin_read_from_memory(&header, bytes.data(), bytes.size()) == 0)
    refuse(header.message);
  if (header.width > kMostPixels / std::max<png_uint_32>(header.height, 1))
    refuse("it is too large");
  header.format = PNG_FORMAT_RGBA;
  Image image{static_cast<int>(header.width), static_cast<int>(header.height), {}};
  image.rgba.resize(PNG_IMAGE_SIZE(header));
  if (png_image_finish_read(&header, nullptr, image.rgba.data(), 0, nullptr) == 0)
    refuse(header.message);
  return image;
}

}  // namespace kvloupe::figure
