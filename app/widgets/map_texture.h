// A picture of a large map, made anew at screen resolution for the part in view. The caller reduces
// the source into pixels so that a single key is never lost; nothing is drawn as one rectangle per
// cell.
#pragma once

#include "core/base/memory_account.h"

#include <imgui.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::widgets {

// The part of the source that is in view and the pixels it gets.
struct MapWindow {
  double row_begin = 0, row_end = 0;  // source units, row_begin at the top
  double col_begin = 0, col_end = 0;
  int width = 0, height = 0;  // pixels
  bool operator==(const MapWindow&) const = default;
};

class MapTexture {
 public:
  MapTexture() = default;
  ~MapTexture();
  MapTexture(const MapTexture&) = delete;
  MapTexture& operator=(const MapTexture&) = delete;

  using Fill = std::function<void(const MapWindow&, std::vector<ImU32>& pixels)>;
  // Fills again only when `key` (what is shown) or the window changed; charges `memory` for it.
  void update(const MemoryAccountPtr& memory, const std::string& key, const MapWindow& window,
              const Fill& fill);
  ImTextureRef ref() const;
  bool empty() const { return texture_ == 0; }

  // Source cells [first, last) that pixel i of n covers, at least one; for reductions.
  static std::pair<std::int64_t, std::int64_t> cells_of_pixel(double begin, double end, int n,
                                                              int i, std::int64_t limit);

 private:
  unsigned texture_ = 0;
  std::string key_;
  MapWindow window_;
  std::vector<ImU32> pixels_;
  MemoryCharge charge_;
};

// Gives each pixel the colour of the cells that it covers: color_of(rows, columns), [first, last) each. A line that
// covers the rows of the one above is copied.
template <typename ColorOf>
void fill_pixels(const MapWindow& window, std::int64_t num_rows, std::int64_t num_cols,
                 std::vector<ImU32>& pixels, const ColorOf& color_of) {
  std::vector<std::pair<std::int64_t, std::int64_t>> columns;
  for (int x = 0; x < window.width; ++x)
    columns.push_back(
        MapTexture::cells_of_pixel(window.col_begin, window.col_end, window.width, x, num_cols));
  std::pair<std::int64_t, std::int64_t> previous{-1, -1};
  for (int y = 0; y < window.height; ++y) {
    ImU32* line = pixels.data() + static_cast<std::size_t>(y) * window.width;
    const auto rows =
        MapTexture::cells_of_pixel(window.row_begin, window.row_end, window.height, y, num_rows);
    if (rows == previous)
      std::copy(line - window.width, line, line);
    else
      std::transform(columns.begin(), columns.end(), line,
                     [&](const auto& covered) { return color_of(rows, covered); });
    previous = rows;
  }
}

}  // namespace kvloupe::widgets
