#include "core/selection/blocks/attention_patterns.h"

#include "core/base/error.h"
#include "core/selection/blocks/block_selector.h"
#include "core/selection/cell_rows.h"
#include "core/selection/ranking.h"

#include <ATen/core/Tensor.h>

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

std::vector<std::int32_t> observed_rows(const Cell& cell, Ablation ablation) {
  return latest_rows(ablation == Ablation::AllRows ? cell.chunk_len : kObservedRows,
                     cell.chunk_len);
}

std::vector<ObservedAttention> observe_attention(const Cell& cell, Ablation ablation) {
  const std::vector<std::int32_t> latest = observed_rows(cell, ablation);
  const ColumnsAndSlashes sums = columns_and_slashes(sets_over_cell(cell, cell.q, latest), cell.k);
  const std::vector<std::vector<float>> all = all_on_host<float>({sums.columns, sums.slashes});
  std::vector<ObservedAttention> heads;
  for (std::int64_t head = 0; head < cell.num_q_heads(); ++head) {
    const auto of_head = [&](const std::vector<float>& values) {
      const auto begin = values.begin() + head * cell.kv_len();
      return std::vector<float>(begin, begin + cell.kv_len());
    };
    heads.push_back({static_cast<std::int64_t>(latest.size()), of_head(all[0]), of_head(all[1])});
  }
  return heads;
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

std::vector<std::int32_t> best_blocks(const std::vector<std::vector<float>>& products,
                                      const BlockGrid& grid, const SoftmaxForm& softmax,
                                      std::int64_t query_block) {
  const std::int64_t first = first_block(grid, softmax, query_block);
  const std::span dots(products[static_cast<std::size_t>(query_block)]);
  std::vector<std::int32_t> blocks = keep_best(dots.subspan(first), kTopBlocks).indices;
  for (std::int32_t& block : blocks) block += static_cast<std::int32_t>(first);
  return blocks;
}

}  // namespace kvloupe::selection
