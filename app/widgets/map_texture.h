// A picture of a large map, made anew at screen resolution for the part in view. The caller reduces
// the source into pixels so that a single key is never lost; nothing is drawn as one rectangle per
// cell.
#pragma once

#include "core/base/memory_account.h"

#include <imgui.h>

#include <cstdint>
#include <functional>
#include <string>
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

}  // namespace kvloupe::widgets
