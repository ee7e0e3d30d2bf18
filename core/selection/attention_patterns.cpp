#include "core/selection/attention_patterns.h"

#include "core/base/error.h"
#include "core/selection/block_means.h"
#include "core/selection/block_selector.h"
#include "core/selection/cell_rows.h"
#include "core/selection/kernels.h"
#include "core/selection/ranking.h"

#include <algorithm>
#include <span>

namespace kvloupe::selection {
namespace {

constexpr std::int64_t kObservedRows = 64;
constexpr std::int64_t kForcedColumns = 30;
constexpr std::int64_t kForcedSlashes = 100;
constexpr std::int64_t kLeastColumns = 30;
constexpr std::int64_t kLeastSlashes = 50;
constexpr std::int64_t kTopBlocks = 100;

// Marks the `count` best, the first `num_forced` of them before all.
std::vector<std::uint8_t> mark_best(const std::vector<float>& scores, std::int64_t count,
                                    std::int64_t num_forced) {
  std::vector<std::uint8_t> forced(scores.size(), 0);
  std::fill_n(forced.begin(), std::min<std::size_t>(num_forced, scores.size()), std::uint8_t{1});
  std::vector<std::uint8_t> marks(scores.size(), 0);
  for (const std::int32_t i : keep_best(scores, count, forced).indices)
    marks[i] = forced[i] != 0 ? 2 : 1;
  return marks;
}

}  // namespace

std::vector<std::int32_t> observed_rows(const Cell& cell) {
  return latest_rows(kObservedRows, cell.chunk_len);
}

ObservedAttention observe_attention(const Cell& cell, std::int64_t q_head) {
  const std::int64_t total = cell.kv_len();
  ObservedAttention observed;
  const std::vector<std::int32_t> latest = observed_rows(cell);
  observed.num_rows = static_cast<std::int64_t>(latest.size());
  observed.columns.assign(static_cast<std::size_t>(total), 0.0F);
  observed.slashes.assign(static_cast<std::size_t>(total), 0.0F);
  const ChunkRows rows = chunk_rows(cell, q_head, latest);
  sum_columns_and_slashes(pack_rows(rows.pointers, cell.q.size(2)), rows.visible,
                          keys_of(cell, q_head / cell.gqa_group_size()), total,
                          rows.softmax(cell.softmax), observed.columns.data(),
                          observed.slashes.data());
  return observed;
}

PatternLines lines_of(const HeadPattern& pattern, const ObservedAttention& observed) {
  const auto total = static_cast<std::int64_t>(observed.columns.size());
  if (pattern.type == PatternType::StreamLlm)
    return {
        mark_best(observed.columns, std::min(pattern.vertical_size, total), pattern.vertical_size),
        mark_best(observed.slashes, std::min(pattern.slash_size, total), pattern.slash_size)};
  KVLOUPE_CHECK(pattern.type == PatternType::VerticalSlash);
  return {
      mark_best(observed.columns, std::min(total, std::max(pattern.vertical_size, kLeastColumns)),
                kForcedColumns),
      mark_best(observed.slashes, std::min(total, std::max(pattern.slash_size, kLeastSlashes)),
                kForcedSlashes)};
}

std::vector<std::uint8_t> covered_keys(const PatternLines& lines, const BlockGrid& grid,
                                       std::int64_t row_begin, std::int64_t row_end) {
  // Row i and distance o meet at key P + i - o: the rows together at a range of keys.
  const std::int64_t first = grid.past_len + row_begin;
  const std::int64_t end = grid.past_len + row_end;
  std::vector<std::uint8_t> keys(static_cast<std::size_t>(grid.kv_len()), 0);
  std::copy_n(lines.columns.begin(), end, keys.begin());
  for (const std::uint8_t mark : {std::uint8_t{1}, std::uint8_t{2}}) {
    std::vector<std::int32_t> changes(static_cast<std::size_t>(grid.kv_len() + 1), 0);
    for (std::int64_t distance = 0; distance < end; ++distance) {
      if (lines.slashes[distance] < mark) continue;
      ++changes[std::max<std::int64_t>(0, first - distance)];
      --changes[end - distance];
    }
    std::int64_t open = 0;
    for (std::int64_t key = 0; key < end; ++key) {
      open += changes[key];
      if (open > 0) keys[key] = std::max(keys[key], mark);
    }
  }
  return keys;
}

std::vector<std::int32_t> best_blocks(const Cell& cell, const BlockGrid& grid,
                                      const float* key_means, std::int64_t q_head,
                                      std::int64_t query_block) {
  const std::int64_t dim = cell.q.size(2);
  std::vector<float> mean(static_cast<std::size_t>(dim));
  mean_of_rows(query_row(cell, q_head, 0), grid.row_begin(query_block), grid.row_end(query_block),
               dim, mean.data());
  const std::int64_t first = first_block(grid, cell.softmax, query_block);
  const std::int64_t count = grid.block_of_query_block(query_block) + 1 - first;
  std::vector<float> dots(static_cast<std::size_t>(count));
  dot_products(mean.data(), key_means + first * dim, count, dim, dots.data());
  std::vector<std::int32_t> blocks = keep_best(dots, kTopBlocks).indices;
  for (std::int32_t& block : blocks) block += static_cast<std::int32_t>(first);
  return blocks;
}

}  // namespace kvloupe::selection
