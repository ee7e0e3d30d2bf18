#include "app/figure/image.h"

#include "core/base/error.h"

#include <png.h>

#include <algorithm>

namespace kvloupe::figure {

std::string png_bytes(const Image& image) {
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
  return bytes;
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
