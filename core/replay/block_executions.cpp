#include "core/replay/block_executions.h"

#include "core/attention/paged_attention.h"
#include "core/base/error.h"
#include "core/selection/attend.h"
#include "core/selection/blocks/block_selector.h"

namespace kvloupe::replay {
namespace {

using trace::BlockGrid;
using trace::BlockMasks;

// Those of some heads, with every query block's own block.
BlockMasks masks_of_heads(const BlockMasks& all, int first, int count) {
  BlockMasks masks;
  masks.grid = all.grid;
  masks.num_q_heads = count;
  masks.abstains = all.abstains;
  masks.kept.assign(all.kept.begin() + static_cast<std::ptrdiff_t>(all.index(first, 0, 0)),
                    all.kept.begin() + static_cast<std::ptrdiff_t>(all.index(first + count, 0, 0)));
  for (int head = 0; head < count; ++head)
    for (std::int64_t i = 0; i < all.grid.num_query_blocks(); ++i)
      masks.kept[masks.index(head, i, all.grid.block_of_query_block(i))] = 1;
  return masks;
}

// The past blocks that the heads want, [J_cur]; of query blocks that vote, or of all.
std::vector<std::uint8_t> wanted(const BlockMasks& masks, int first, int count, bool of_all) {
  std::vector<std::uint8_t> blocks(static_cast<std::size_t>(masks.grid.num_past_blocks()), 0);
  for (int head = first; head < first + count; ++head)
    for (std::int64_t i = 0; i < masks.grid.num_query_blocks(); ++i) {
      if (!of_all && !masks.votes(i)) continue;
      for (std::size_t j = 0; j < blocks.size(); ++j)
        blocks[j] |= masks.kept[masks.index(head, i, static_cast<std::int64_t>(j))];
    }
  return blocks;
}

std::size_t place_of(BlockExecution way) { return static_cast<std::size_t>(way); }

}  // namespace

BlockExecutions::BlockExecutions(const selection::Cell& cell, const BlockMasks& masks,
                                 int first_q_head, int num_q_heads)
    : cell_(cell), masks_(masks_of_heads(masks, first_q_head, num_q_heads)) {
  const std::int64_t kv_head = first_q_head / cell.gqa_group_size();
  KVLOUPE_CHECK((first_q_head + num_q_heads - 1) / cell.gqa_group_size() == kv_head);
  cell_.q = cell.q.narrow(0, first_q_head, num_q_heads);
  cell_.k = cell.k.narrow(0, kv_head, 1);
  cell_.v = cell.v.narrow(0, kv_head, 1);
  cell_.softmax = cell.softmax.of_heads(first_q_head, num_q_heads);
  for (int head = 0; head < num_q_heads; ++head)
    past_keys_[place_of(BlockExecution::Native)].push_back(
        selection::row_of_blocks(masks_.grid, wanted(masks_, head, 1, true)).positions);
  unite(BlockExecution::QueryUnion, 1);
  unite(BlockExecution::HeadUnion, num_q_heads);
}

void BlockExecutions::unite(BlockExecution way, int q_heads_per_row) {
  const BlockGrid& grid = masks_.grid;
  attention::BlockTables& tables = tables_[place_of(way)];
  tables.page_size = grid.block_size;
  tables.q_heads_per_row = q_heads_per_row;
  tables.pages_per_head = grid.num_key_blocks();
  tables.kv_indptr = {0};
  for (int first = 0; first < masks_.num_q_heads; first += q_heads_per_row) {
    const auto keys =
        selection::row_of_blocks(grid, wanted(masks_, first, q_heads_per_row, false)).positions;
    const auto table = trace::block_table(grid, keys);
    tables.kv_indices.insert(tables.kv_indices.end(), table.begin(), table.end());
    tables.kv_indptr.push_back(static_cast<std::int32_t>(tables.kv_indices.size()));
    past_keys_[place_of(way)].insert(past_keys_[place_of(way)].end(),
                                     static_cast<std::size_t>(q_heads_per_row), keys);
  }
}

const std::vector<std::int32_t>& BlockExecutions::past_keys(BlockExecution way, int head) const {
  return past_keys_[place_of(way)][static_cast<std::size_t>(head)];
}

at::Tensor BlockExecutions::attend(BlockExecution way) const {
  if (way != BlockExecution::Native)
    return attention::paged_chunk_attention(cell_.q, cell_.k, cell_.v, cell_.softmax,
                                            tables_[place_of(way)]);
  return attention::block_sparse_chunk_attention(
      cell_.q, cell_.k, cell_.v, cell_.softmax, masks_.grid.block_size, selection::mask_of(masks_));
}

}  // namespace kvloupe::replay
