// Compiled once per instruction set: foreach_target.h includes this file again for each of them.
#include "core/attention/lane_products.h"

#include "core/base/work_count.h"

#include <algorithm>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/attention/lane_products.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kvloupe::attention::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Float = HWY_CAPPED(float, 16);
constexpr Float kFloat;
constexpr std::int64_t kWidth = hn::MaxLanes(Float());
constexpr std::int64_t kVectors = kLaneTileKeys / kWidth;
// Enough independent sums to hide the latency of a multiply-add.
constexpr std::int64_t kRowsAtOnce = kVectors >= 8 ? 1 : 2;

// Vectors [begin, end) of one tile, for the rows from `row` on; out is that of the tile's key 0.
template <std::int64_t kRows>
HWY_INLINE void multiply_tile(const LaneRows& rows, std::int64_t row, const float* tile,
                              float scale, float* out, std::int64_t stride) {
  const float* values = rows.values + row * rows.kept;
  const std::int32_t* lanes = rows.lanes + row * rows.kept;
  hn::Vec<Float> sums[kRows][kVectors];
  for (auto& of_row : sums)
    for (auto& sum : of_row) sum = hn::Zero(kFloat);
  for (std::int64_t i = 0; i < rows.kept; ++i)
    for (std::int64_t r = 0; r < kRows; ++r) {
      const auto value = hn::Set(kFloat, values[r * rows.kept + i]);
      const float* lane = tile + lanes[r * rows.kept + i] * kLaneTileKeys;
      for (std::int64_t v = 0; v < kVectors; ++v)
        sums[r][v] = hn::MulAdd(value, hn::LoadU(kFloat, lane + v * kWidth), sums[r][v]);
    }
  const auto factor = hn::Set(kFloat, scale);
  for (std::int64_t r = 0; r < kRows; ++r)
    for (std::int64_t v = 0; v < kVectors; ++v)
      hn::StoreU(hn::Mul(sums[r][v], factor), kFloat, out + r * stride + v * kWidth);
}

// Keys [begin, end) of one tile for one row, whole vectors of them at a time.
HWY_INLINE void multiply_part(const LaneRows& rows, std::int64_t row, const float* tile,
                              std::int64_t begin, std::int64_t end, float scale, float* out) {
  const auto factor = hn::Set(kFloat, scale);
  float part[kLaneTileKeys];
  for (std::int64_t at = begin / kWidth * kWidth; at < end; at += kWidth) {
    auto sum = hn::Zero(kFloat);
    for (std::int64_t i = row * rows.kept; i < (row + 1) * rows.kept; ++i)
      sum = hn::MulAdd(hn::Set(kFloat, rows.values[i]),
                       hn::LoadU(kFloat, tile + rows.lanes[i] * kLaneTileKeys + at), sum);
    hn::StoreU(hn::Mul(sum, factor), kFloat, part + at);
  }
  std::copy(part + begin, part + end, out);
}

void multiply_lanes_kernel(const LaneRows& rows, std::int64_t num_rows, const float* tiles,
                           std::int64_t num_lanes, std::int64_t first, std::int64_t count,
                           float scale, float* scores, std::int64_t stride) {
  for (std::int64_t key = 0; key < count;) {
    const std::int64_t begin = (first + key) % kLaneTileKeys;
    const std::int64_t end = std::min(begin + count - key, kLaneTileKeys);
    const float* tile = tiles + (first + key) / kLaneTileKeys * kLaneTileKeys * num_lanes;
    float* out = scores + key;
    if (begin == 0 && end == kLaneTileKeys) {
      std::int64_t row = 0;
      for (; row + kRowsAtOnce <= num_rows; row += kRowsAtOnce)
        multiply_tile<kRowsAtOnce>(rows, row, tile, scale, out + row * stride, stride);
      for (; row < num_rows; ++row)
        multiply_tile<1>(rows, row, tile, scale, out + row * stride, stride);
    } else {
      for (std::int64_t row = 0; row < num_rows; ++row)
        multiply_part(rows, row, tile, begin, end, scale, out + row * stride);
    }
    key += end - begin;
  }
}

}  // namespace kvloupe::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvloupe::attention {
namespace {

std::int64_t lanes_used(const LaneRows& rows, std::int64_t num_rows, std::int64_t num_lanes) {
  std::vector<bool> used(static_cast<std::size_t>(num_lanes));
  for (std::int64_t i = 0; i < num_rows * rows.kept; ++i)
    used[static_cast<std::size_t>(rows.lanes[i])] = true;
  return std::count(used.begin(), used.end(), true);
}

}  // namespace

HWY_EXPORT(multiply_lanes_kernel);

void multiply_lanes(const LaneRows& rows, std::int64_t num_rows, const float* tiles,
                    std::int64_t num_lanes, std::int64_t first, std::int64_t count, float scale,
                    float* scores, std::int64_t stride) {
  if (WorkCount* work = WorkCount::active())
    work->add_keys(num_rows * count * rows.kept, count * lanes_used(rows, num_rows, num_lanes));
  HWY_DYNAMIC_DISPATCH(multiply_lanes_kernel)
  (rows, num_rows, tiles, num_lanes, first, count, scale, scores, stride);
}

void store_lanes(const float* rows, std::int64_t count, std::int64_t num_lanes, std::int64_t first,
                 float* tiles) {
  for (std::int64_t key = 0; key < count; ++key) {
    const std::int64_t place = first + key;
    float* out = tiles + place / kLaneTileKeys * kLaneTileKeys * num_lanes + place % kLaneTileKeys;
    for (std::int64_t lane = 0; lane < num_lanes; ++lane)
      out[lane * kLaneTileKeys] = rows[key * num_lanes + lane];
  }
}

}  // namespace kvloupe::attention
#endif
