#include "app/figure/gif.h"

#include "core/base/error.h"

#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <memory>
#include <unordered_map>
#include <utility>

namespace kvloupe::figure {
namespace {

constexpr int kColors = 256;

void check(int done, int error) {
  if (done == GIF_OK) return;
  const char* why = GifErrorString(error);
  throw Error(ErrorKind::Internal, "the GIF could not be made",
              why != nullptr ? why : "it says no more", "please report this");
}

}  // namespace

// Figures are flat: the colours that most pixels have stay exact, and the shades at the edges of letters
// take the nearest of these.
void GifWriter::add(const Image& image, int hundredths) {
  std::unordered_map<std::uint32_t, std::int64_t> counts;
  const auto count = static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height);
  const auto color_at = [&](std::size_t pixel) {
    const std::uint8_t* at = &image.rgba[4 * pixel];
    return static_cast<std::uint32_t>(at[0] << 16 | at[1] << 8 | at[2]);
  };
  for (std::size_t i = 0; i < count; ++i) ++counts[color_at(i)];
  std::vector<std::pair<std::int64_t, std::uint32_t>> by_count;
  for (const auto& [color, times] : counts) by_count.emplace_back(-times, color);
  std::sort(by_count.begin(), by_count.end());
  const std::size_t used = std::min<std::size_t>(by_count.size(), kColors);

  Frame frame{image.width, image.height, hundredths, std::vector<std::uint8_t>(3 * kColors),
              std::vector<std::uint8_t>(count)};
  const auto channel = [](std::uint32_t color, int i) {
    return static_cast<int>(color >> (16 - 8 * i) & 0xFF);
  };
  for (std::size_t i = 0; i < used; ++i)
    for (int c = 0; c < 3; ++c)
      frame.colors[3 * i + static_cast<std::size_t>(c)] =
          static_cast<std::uint8_t>(channel(by_count[i].second, c));
  std::unordered_map<std::uint32_t, std::uint8_t> nearest;
  for (const auto& [times, color] : by_count) {
    const auto distance = [&, color = color](std::size_t i) {
      int sum = 0;
      for (int c = 0; c < 3; ++c) {
        const int apart = channel(color, c) - channel(by_count[i].second, c);
        sum += apart * apart;
      }
      return sum;
    };
    std::size_t best = 0;
    for (std::size_t i = 1; i < used; ++i)
      if (distance(i) < distance(best)) best = i;
    nearest[color] = static_cast<std::uint8_t>(best);
  }
  for (std::size_t i = 0; i < count; ++i) frame.pixels[i] = nearest[color_at(i)];
  frames_.push_back(std::move(frame));
}

std::string GifWriter::take() {
  int width = 0, height = 0;
  for (const Frame& frame : frames_) {
    width = std::max(width, frame.width);
    height = std::max(height, frame.height);
  }
  std::string bytes;
  int error = 0;
  const auto put = [](GifFileType* file, const GifByteType* data, int length) {
    static_cast<std::string*>(file->UserData)
        ->append(reinterpret_cast<const char*>(data), static_cast<std::size_t>(length));
    return length;
  };
  GifFileType* file = EGifOpen(&bytes, put, &error);
  check(file != nullptr ? GIF_OK : GIF_ERROR, error);
  const auto close = [](GifFileType* gone) { EGifCloseFile(gone, nullptr); };
  std::unique_ptr<GifFileType, decltype(close)> closes(file, close);
  EGifSetGifVersion(file, true);
  const std::array<GifColorType, 2> paper{{{255, 255, 255}, {255, 255, 255}}};
  const std::unique_ptr<ColorMapObject, decltype(&GifFreeMapObject)> paper_map(
      GifMakeMapObject(2, paper.data()), GifFreeMapObject);
  check(EGifPutScreenDesc(file, width, height, 8, 0, paper_map.get()), file->Error);
  constexpr std::array<unsigned char, 3> kForever{1, 0, 0};
  EGifPutExtensionLeader(file, APPLICATION_EXT_FUNC_CODE);
  EGifPutExtensionBlock(file, 11, "NETSCAPE2.0");
  EGifPutExtensionBlock(file, kForever.size(), kForever.data());
  EGifPutExtensionTrailer(file);
  for (Frame& frame : frames_) {
    const GraphicsControlBlock control{DISPOSE_BACKGROUND, false, frame.hundredths,
                                       NO_TRANSPARENT_COLOR};
    std::array<GifByteType, 4> extension{};
    const auto size = EGifGCBToExtension(&control, extension.data());
    check(EGifPutExtension(file, GRAPHICS_EXT_FUNC_CODE, static_cast<int>(size), extension.data()),
          file->Error);
    std::vector<GifColorType> colors(kColors);
    for (std::size_t i = 0; i < colors.size(); ++i)
      colors[i] = {frame.colors[3 * i], frame.colors[3 * i + 1], frame.colors[3 * i + 2]};
    const std::unique_ptr<ColorMapObject, decltype(&GifFreeMapObject)> map(
        GifMakeMapObject(kColors, colors.data()), GifFreeMapObject);
    check(EGifPutImageDesc(file, 0, 0, frame.width, frame.height, false, map.get()), file->Error);
    check(EGifPutLine(file, frame.pixels.data(), static_cast<int>(frame.pixels.size())),
          file->Error);
  }
  static_cast<void>(closes.release());  // closed here, where it can say why it failed
  check(EGifCloseFile(file, &error), error);
  frames_.clear();
  return bytes;
}

}  // namespace kvloupe::figure
