#include "core/attention/row_block.h"

#include "core/attention/gemm.h"
#include "core/attention/lane_products.h"
#include "core/attention/softmax.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

namespace kvloupe::attention {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr std::int64_t kMaxSpansPerView = 8;

std::int64_t num_tiles(std::int64_t num_keys) { return (num_keys + kTileKeys - 1) / kTileKeys; }

// Masks what row t of the chunk may not see among keys [begin, begin + stride), padding included.
void mask_row(const KeyView& keys, std::int64_t t, std::int64_t begin, std::int64_t stride,
              float* row) {
  if (!keys.first_visible.empty()) {
    const std::int64_t hidden = std::min(keys.first_visible[t] - begin, stride);
    if (hidden > 0) std::fill_n(row, hidden, kMasked);
  }
  const std::int64_t own = keys.past + t - begin;
  if (keys.shared != nullptr) {
    const std::int64_t end = std::min(own, stride);
    for (std::int64_t j = std::max<std::int64_t>(keys.past - begin, 0); j < end; ++j) {
      if (keys.shared[begin + j - keys.past] == 0) row[j] = kMasked;
    }
  }
  if (own + 1 < stride) std::fill(row + std::max<std::int64_t>(own + 1, 0), row + stride, kMasked);
}

void scale_row(float* row, std::int64_t count, float factor) {
  for (std::int64_t i = 0; i < count; ++i) row[i] *= factor;
}

// Where a walk along the segments of a view stands.
struct Cursor {
  std::size_t segment = 0;
  std::int64_t offset = 0;  // keys of the segment that lie behind
};

// Calls use(segment, offset, at, count) for each run of the next `keys` keys that lie together, from
// `offset` of a segment on; `at` counts from 0. Returns the place after them.
template <typename Use>
Cursor for_each_run(const KeyView& view, Cursor cursor, std::int64_t keys, Use use) {
  for (std::int64_t at = 0; at < keys;) {
    const KeySegment& segment = view.segments[cursor.segment];
    const std::int64_t count = std::min(keys - at, segment.count - cursor.offset);
    use(segment, cursor.offset, at, count);
    at += count;
    cursor.offset += count;
    if (cursor.offset == segment.count) cursor = {cursor.segment + 1, 0};
  }
  return cursor;
}

// Scaled products of the rows with `count` keys from `offset` of the segment on.
void multiply(const QueryRows& q, std::int64_t rows, const KeyView& keys, const KeySegment& segment,
              std::int64_t offset, std::int64_t count, float scale, float* scores,
              std::int64_t stride) {
  if (q.lanes == nullptr)
    multiply_qk(q.values, segment.k + offset * q.width, rows, count, q.width, scale, scores,
                stride);
  else
    multiply_lanes({q.values, q.lanes, q.width}, rows, segment.k, keys.num_lanes,
                   segment.tile_offset + offset, count, scale, scores, stride);
}

}  // namespace

void copy_rows(const float* rows, const std::int32_t* positions, std::int64_t count,
               std::int64_t dim, float* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(out + i * dim, rows + positions[i] * dim, dim * sizeof(float));
  }
}

std::int64_t scratch_floats(std::int64_t num_keys, bool want_column_sums) {
  const std::int64_t tiles = want_column_sums ? num_tiles(num_keys) : 1;
  // The last tile of a short row is narrower than kTileKeys.
  const std::int64_t keys = std::min(padded(num_keys), tiles * kTileKeys);
  return kBlockRows * (keys + tiles);
}

void attend_row_block(const QueryRows& q, std::int64_t first_row, std::int64_t rows,
                      std::int64_t chunk_len, std::int64_t head_dim, float scale,
                      const KeyView& keys, float* scratch, const RowBlockOutputs& outputs) {
  // Where heads meet inside a block it holds the chunk's last row; else keys after its last are
  // cut.
  const std::int64_t first_t = first_row % chunk_len;
  const std::int64_t count = keys.past + std::min(first_t + rows, chunk_len);
  const bool keep_tiles = outputs.column_sums != nullptr;
  RowState states[kBlockRows];
  // A sink is a score that was there before any key.
  for (std::int64_t r = 0; r < rows && keys.sink_logits != nullptr; ++r)
    states[r] = {keys.sink_logits[(first_row + r) / chunk_len], 1};
  float* tile_max = scratch;  // [tiles, kBlockRows] the maximum that a tile's exponentials refer to
  float* tiles = scratch + kBlockRows * (keep_tiles ? num_tiles(count) : 1);
  const auto tile_at = [&](std::int64_t begin) { return tiles + (keep_tiles ? rows * begin : 0); };

  Cursor tile_begin;
  for (std::int64_t begin = 0; begin < count; begin += kTileKeys) {
    const std::int64_t tile_keys = std::min(kTileKeys, count - begin), stride = padded(tile_keys);
    float* tile = tile_at(begin);
    const Cursor tile_end = for_each_run(
        keys, tile_begin, tile_keys,
        [&](const KeySegment& segment, std::int64_t offset, std::int64_t at, std::int64_t run) {
          multiply(q, rows, keys, segment, offset, run, scale, tile + at, stride);
        });
    for (std::int64_t r = 0; r < rows; ++r) {
      float* row = tile + r * stride;
      if (keys.softcap > 0) cap_row(row, stride, keys.softcap);
      mask_row(keys, (first_row + r) % chunk_len, begin, stride, row);
      const float factor = softmax_tile(row, stride, &states[r]);
      if (begin > 0 && outputs.output != nullptr)
        scale_row(outputs.output + r * head_dim, head_dim, factor);
      if (keep_tiles) tile_max[begin / kTileKeys * kBlockRows + r] = states[r].max;
    }
    if (outputs.output != nullptr) {
      for_each_run(
          keys, tile_begin, tile_keys,
          [&](const KeySegment& segment, std::int64_t offset, std::int64_t at, std::int64_t run) {
            multiply_pv(tile + at, segment.v + offset * head_dim, rows, run, head_dim, stride,
                        begin + at > 0, outputs.output);
          });
    }
    tile_begin = tile_end;
  }

  for (std::int64_t r = 0; r < rows; ++r) {
    const float inverse_sum = 1 / states[r].sum;
    if (outputs.lse != nullptr) outputs.lse[r] = states[r].lse();
    if (outputs.output != nullptr) scale_row(outputs.output + r * head_dim, head_dim, inverse_sum);
  }
  if (!keep_tiles) return;
  for (std::int64_t begin = 0; begin < count; begin += kTileKeys) {
    const std::int64_t stride = padded(std::min(kTileKeys, count - begin));
    for (std::int64_t r = 0; r < rows; ++r) {
      const float old_max = tile_max[begin / kTileKeys * kBlockRows + r];
      const float factor = std::exp(old_max - states[r].max) / states[r].sum;
      // A tile of which the row saw nothing has the maximum -inf and the factor 0.
      if (factor != 0)
        add_scaled(tile_at(begin) + r * stride, factor, outputs.column_sums + begin, stride);
    }
  }
}

std::vector<RowSpan> cut_rows(std::int64_t num_views, std::int64_t rows_per_view) {
  std::int64_t blocks = 1;
  while (blocks * kBlockRows < rows_per_view) blocks *= 2;
  const std::int64_t block_rows = (rows_per_view + blocks - 1) / blocks;
  const std::int64_t span_rows = block_rows * std::max<std::int64_t>(blocks / kMaxSpansPerView, 1);
  std::vector<RowSpan> spans;
  for (std::int64_t view = 0; view < num_views; ++view) {
    for (std::int64_t begin = 0; begin < rows_per_view; begin += span_rows) {
      const std::int64_t end = std::min(begin + span_rows, rows_per_view);
      spans.push_back({view, begin, end, block_rows});
    }
  }
  return spans;
}

}  // namespace kvloupe::attention
