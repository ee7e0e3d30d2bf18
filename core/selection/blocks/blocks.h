// How block methods see a cell: keys in blocks of block_size from position 0, the chunk's queries
// in query blocks, cut at multiples of block_size from position 0 too. A query block has the number
// of the key block at its place. A block that straddles the chunk's begin counts as current.
// Masks are per query head, as the methods' own kernels use them (MInference, XAttention,
// FlexPrefill, FlashPrefill, SeerAttention); what the chunk's KV sets make of them is in
// block_selector.h.
#pragma once

#include "core/trace/runs/block_mask.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace kvloupe::selection {

// Blocks of keys and query blocks of a chunk.
using trace::BlockGrid;

// Of methods without the parameter block_size: MInference's kernels work on blocks of 64 tokens.
inline constexpr int kBlockSizeOfPatterns = 64;

// One value per (query head, query block, key block), row-major [H, Q_b, N_b].
template <typename Value>
class BlockTable {
 public:
  BlockTable() = default;
  BlockTable(const BlockGrid& grid, std::int64_t num_q_heads, Value value = {})
      : num_q_heads_(num_q_heads),
        num_query_blocks_(grid.num_query_blocks()),
        num_key_blocks_(grid.num_key_blocks()),
        values_(static_cast<std::size_t>(num_q_heads * num_query_blocks_ * num_key_blocks_),
                value) {}

  std::int64_t num_q_heads() const { return num_q_heads_; }
  bool empty() const { return values_.empty(); }
  // [N_b]
  Value* row(std::int64_t q_head, std::int64_t query_block) {
    return values_.data() + (q_head * num_query_blocks_ + query_block) * num_key_blocks_;
  }
  const Value* row(std::int64_t q_head, std::int64_t query_block) const {
    return values_.data() + (q_head * num_query_blocks_ + query_block) * num_key_blocks_;
  }
  const std::vector<Value>& values() const& { return values_; }
  std::vector<Value> values() && { return std::move(values_); }

 private:
  std::int64_t num_q_heads_ = 0, num_query_blocks_ = 0, num_key_blocks_ = 0;
  std::vector<Value> values_;
};

// What a block method decides natively, before any union, while it decides.
struct BlockChoice {
  BlockGrid grid;
  BlockTable<std::uint8_t> mask;    // 1: the head's query block attends to the key block; causal
  BlockTable<std::uint8_t> forced;  // 1: kept by rule (sink, window, first, diagonal); within mask
  BlockTable<float> scores;         // what was ranked or compared; 0 for blocks that had no score
  // Methods that compare scores with a number: that number, [H, Q_b] row-major. Else empty.
  std::vector<float> thresholds;
  // Methods that keep single keys beside whole blocks (MInference): all past keys that any row of
  // the chunk attends to, ascending, [H]; the blocks of `mask` cover them. Else empty.
  std::vector<std::vector<std::int32_t>> past_keys;
  // Those of past_keys that the head keeps by rule, ascending, [H]; empty where past_keys is.
  std::vector<std::vector<std::int32_t>> forced_keys;
  // Query blocks that do not vote in a union (FlashPrefill's dense last ones), [Q_b]; empty: all
  // vote. Their rows of the mask are dense.
  std::vector<std::uint8_t> abstains;

  BlockChoice() = default;
  // Nothing kept, all scores 0.
  BlockChoice(const BlockGrid& blocks, std::int64_t num_q_heads)
      : grid(blocks),
        mask(blocks, num_q_heads),
        forced(blocks, num_q_heads),
        scores(blocks, num_q_heads) {}
};

}  // namespace kvloupe::selection
