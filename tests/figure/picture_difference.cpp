// See picture_difference.h.
#include "tests/figure/picture_difference.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <vector>

namespace kvloupe::figure::testing {
namespace {

// A reference is stored with 16 levels a channel, 0, 17, 34, ... 255.
constexpr int kStep = 17;
// Levels of a channel by which one colour may differ from the stored one: the rounding and a little.
constexpr int kLevels = kStep / 2 + 12;
// Of all pixels: a long edge may lie one pixel aside.
constexpr double kChangedShare = 1e-3;
// Fewer than between any two digits of the views' smallest text.
constexpr int kMostLost = 4;

const std::uint8_t* pixel(const Image& image, int x, int y) {
  return image.rgba.data() + (static_cast<std::size_t>(y) * image.width + x) * 4;
}

bool alike(const std::uint8_t* a, const std::uint8_t* b) {
  for (int channel = 0; channel < 3; ++channel)
    if (std::abs(a[channel] - b[channel]) > kLevels) return false;
  return true;
}

bool is_beside(const std::uint8_t* color, const Image& image, int x, int y) {
  for (int j = std::max(0, y - 1); j <= std::min(image.height - 1, y + 1); ++j)
    for (int i = std::max(0, x - 1); i <= std::min(image.width - 1, x + 1); ++i)
      if (alike(color, pixel(image, i, j))) return true;
  return false;
}

void paint(Image& image, int x, int y, std::array<std::uint8_t, 3> color) {
  std::copy(color.begin(), color.end(),
            image.rgba.begin() + (static_cast<std::ptrdiff_t>(y) * image.width + x) * 4);
}

std::runtime_error png_error(const std::string& path, const png_image& header) {
  return std::runtime_error(fmt::format("{}: {}", path, header.message));
}

// Indices into `colors`, [height, width]; empty where there are more than 256.
std::vector<std::uint8_t> indexed(const Image& image, std::vector<std::uint8_t>& colors) {
  std::map<std::array<std::uint8_t, 3>, int> index_of;
  std::vector<std::uint8_t> indices;
  for (std::size_t i = 0; i < image.rgba.size(); i += 4) {
    const std::array color{image.rgba[i], image.rgba[i + 1], image.rgba[i + 2]};
    const auto [found, is_new] = index_of.emplace(color, static_cast<int>(index_of.size()));
    if (index_of.size() > 256) return {};
    if (is_new) colors.insert(colors.end(), color.begin(), color.end());
    indices.push_back(static_cast<std::uint8_t>(found->second));
  }
  return indices;
}

}  // namespace

bool PictureDifference::tolerable() const {
  return same_size && lost <= kMostLost && changed <= kChangedShare * shown.width * shown.height;
}

std::string PictureDifference::text() const {
  if (!same_size) return "it has another size";
  return fmt::format("{} pixels have another colour, {} of them one that is not beside them either",
                     changed, lost);
}

PictureDifference difference(const Image& got, const Image& reference) {
  PictureDifference result;
  result.shown = reference;
  result.same_size = got.width == reference.width && got.height == reference.height;
  if (!result.same_size) return result;
  for (std::uint8_t& level : result.shown.rgba) level = static_cast<std::uint8_t>(170 + level / 3);
  for (int y = 0; y < got.height; ++y)
    for (int x = 0; x < got.width; ++x) {
      const std::uint8_t *a = pixel(got, x, y), *b = pixel(reference, x, y);
      if (alike(a, b)) continue;
      const bool lost = !is_beside(a, reference, x, y) || !is_beside(b, got, x, y);
      ++result.changed;
      result.lost += lost ? 1 : 0;
      paint(
          result.shown, x, y,
          lost ? std::array<std::uint8_t, 3>{220, 0, 0} : std::array<std::uint8_t, 3>{255, 150, 0});
    }
  return result;
}

Image read_png(const std::string& path) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_file(&header, path.c_str()) == 0) throw png_error(path, header);
  header.format = PNG_FORMAT_RGBA;
  Image image{static_cast<int>(header.width), static_cast<int>(header.height), {}};
  image.rgba.resize(PNG_IMAGE_SIZE(header));
  if (png_image_finish_read(&header, nullptr, image.rgba.data(), 0, nullptr) == 0)
    throw png_error(path, header);
  return image;
}

void write_reference(const std::string& path, const Image& image) {
  Image rounded = image;
  for (std::uint8_t& level : rounded.rgba)
    level = static_cast<std::uint8_t>((level + kStep / 2) / kStep * kStep);
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width);
  header.height = static_cast<png_uint_32>(image.height);
  std::vector<std::uint8_t> colors, indices = indexed(rounded, colors);
  header.format = indices.empty() ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB_COLORMAP;
  header.colormap_entries = static_cast<png_uint_32>(colors.size() / 3);
  const std::uint8_t* pixels = indices.empty() ? rounded.rgba.data() : indices.data();
  if (png_image_write_to_file(&header, path.c_str(), 0, pixels, 0, colors.data()) == 0)
    throw png_error(path, header);
}

}  // namespace kvloupe::figure::testing
