// Included by Highway once per instruction set; the best one is chosen at run time.
#include "core/selection/operators/lane_kernels.h"

#include "core/attention/lane_products.h"
#include "core/base/work_count.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/selection/operators/lane_kernels.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace kvloupe::selection {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using attention::kLaneTileKeys;
// As wide as in kernels.cpp, whose sums channel_products repeats.
using Lanes = HWY_CAPPED(float, 16);
constexpr Lanes kLanes;
constexpr std::int64_t kWidth = hn::MaxLanes(Lanes());

// Lanes [lane, lane + kVectors * kWidth) of kRows rows.
template <std::int64_t kRows, std::int64_t kVectors>
HWY_INLINE void rotate_block(const float* rows, const float* directions, std::int64_t dim,
                             std::int64_t width, std::int64_t lane, float* out) {
  hn::Vec<Lanes> sums[kRows][kVectors];
  for (auto& row : sums)
    for (auto& sum : row) sum = hn::Zero(kLanes);
  for (std::int64_t channel = 0; channel < dim; ++channel) {
    const float* row_of_directions = directions + channel * dim + lane;
    for (std::int64_t v = 0; v < kVectors; ++v) {
      const auto direction = hn::LoadU(kLanes, row_of_directions + v * kWidth);
      for (std::int64_t r = 0; r < kRows; ++r)
        sums[r][v] = hn::MulAdd(hn::Set(kLanes, rows[r * dim + channel]), direction, sums[r][v]);
    }
  }
  for (std::int64_t r = 0; r < kRows; ++r)
    for (std::int64_t v = 0; v < kVectors; ++v)
      hn::StoreU(sums[r][v], kLanes, out + r * width + lane + v * kWidth);
}

template <std::int64_t kRows>
HWY_INLINE void rotate_some(const float* rows, const float* directions, std::int64_t dim,
                            std::int64_t width, float* out) {
  std::int64_t lane = 0;
  for (; lane + 2 * kWidth <= width; lane += 2 * kWidth)
    rotate_block<kRows, 2>(rows, directions, dim, width, lane, out);
  for (; lane + kWidth <= width; lane += kWidth)
    rotate_block<kRows, 1>(rows, directions, dim, width, lane, out);
  for (; lane < width; ++lane)
    for (std::int64_t r = 0; r < kRows; ++r) {
      float sum = 0;
      for (std::int64_t channel = 0; channel < dim; ++channel)
        sum = std::fma(rows[r * dim + channel], directions[channel * dim + lane], sum);
      out[r * width + lane] = sum;
    }
}

void rotate_rows_impl(const float* rows, std::int64_t num_rows, const float* directions,
                      std::int64_t dim, std::int64_t width, float* out) {
  std::int64_t row = 0;
  for (; row + 4 <= num_rows; row += 4)
    rotate_some<4>(rows + row * dim, directions, dim, width, out + row * width);
  for (; row < num_rows; ++row)
    rotate_some<1>(rows + row * dim, directions, dim, width, out + row * width);
}

// dot_products() sums channel c in the slot c mod kSlots, the slots by halves, and then one by one
// the channels that fill no whole row of slots. Here a slot is a vector of keys; slots without a
// channel add nothing.
constexpr std::int64_t kSlots = 2 * kWidth;
constexpr std::int64_t kKeyVectors = kLaneTileKeys / kWidth;
struct SlotSums {
  float values[kSlots][kLaneTileKeys];
  std::array<bool, kSlots> filled = {};
};

HWY_INLINE void add_slot(SlotSums& sums, std::int64_t slot, std::int64_t other) {
  if (!sums.filled[other]) return;
  for (std::int64_t v = 0; v < kKeyVectors; ++v) {
    float* to = sums.values[slot] + v * kWidth;
    const auto more = hn::LoadU(kLanes, sums.values[other] + v * kWidth);
    hn::StoreU(sums.filled[slot] ? hn::Add(hn::LoadU(kLanes, to), more) : more, kLanes, to);
  }
  sums.filled[slot] = true;
}

// All keys of one tile.
void tile_products(const float* row, std::span<const std::int32_t> channels, std::int64_t dim,
                   const float* tile, float* out) {
  SlotSums sums;
  const std::int64_t slotted = dim / kSlots * kSlots;
  std::size_t i = 0;
  for (; i < channels.size() && channels[i] < slotted; ++i) {
    const std::int64_t slot = channels[i] % kSlots;
    const auto factor = hn::Set(kLanes, row[channels[i]]);
    const float* keys = tile + channels[i] * kLaneTileKeys;
    for (std::int64_t v = 0; v < kKeyVectors; ++v) {
      float* to = sums.values[slot] + v * kWidth;
      const auto before = sums.filled[slot] ? hn::LoadU(kLanes, to) : hn::Zero(kLanes);
      hn::StoreU(hn::MulAdd(factor, hn::LoadU(kLanes, keys + v * kWidth), before), kLanes, to);
    }
    sums.filled[slot] = true;
  }
  for (std::int64_t half = kSlots / 2; half > 0; half /= 2)
    for (std::int64_t slot = 0; slot < half; ++slot) add_slot(sums, slot, slot + half);
  if (sums.filled[0])
    std::copy_n(sums.values[0], kLaneTileKeys, out);
  else
    std::fill_n(out, kLaneTileKeys, 0.0F);
  for (; i < channels.size(); ++i) {
    const float factor = row[channels[i]];
    const float* keys = tile + channels[i] * kLaneTileKeys;
    for (std::int64_t key = 0; key < kLaneTileKeys; ++key) out[key] += factor * keys[key];
  }
}

void channel_products_impl(const float* row, std::span<const std::int32_t> channels,
                           std::int64_t dim, const float* tiles, std::int64_t first,
                           std::int64_t num_keys, float* out) {
  float products[kLaneTileKeys];
  for (std::int64_t key = 0; key < num_keys;) {
    const std::int64_t begin = (first + key) % kLaneTileKeys;
    const std::int64_t count = std::min(kLaneTileKeys - begin, num_keys - key);
    tile_products(row, channels, dim, tiles + (first + key - begin) * dim, products);
    std::copy_n(products + begin, count, out + key);
    key += count;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvloupe::selection
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvloupe::selection {

HWY_EXPORT(rotate_rows_impl);
HWY_EXPORT(channel_products_impl);

void rotate_rows(const float* rows, std::int64_t num_rows, const float* directions,
                 std::int64_t dim, std::int64_t width, float* out) {
  HWY_DYNAMIC_DISPATCH(rotate_rows_impl)(rows, num_rows, directions, dim, width, out);
}

void channel_products(const float* row, std::span<const std::int32_t> channels, std::int64_t dim,
                      const float* tiles, std::int64_t first, std::int64_t num_keys, float* out) {
  count_keys(1, num_keys, static_cast<std::int64_t>(channels.size()));
  HWY_DYNAMIC_DISPATCH(channel_products_impl)(row, channels, dim, tiles, first, num_keys, out);
}

}  // namespace kvloupe::selection
#endif
