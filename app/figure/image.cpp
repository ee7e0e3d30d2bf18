#include "app/figure/image.h"

#include "core/base/error.h"

#include <png.h>

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

}  // namespace kvloupe::figure
