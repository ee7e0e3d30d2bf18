// Blocks of keys, and how a trace stores which of them a block method keeps (FORMAT.md, section 6).
// Keys stand in blocks of block_size from position 0, the chunk's queries in query blocks, cut at
// multiples of block_size from position 0 too. A query block has the number of the key block at its
// place. A block that straddles the chunk's begin counts as current.
#pragma once

#include "core/trace/trace_types.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe::trace {

struct BlockGrid {
  std::int64_t block_size = 0;
  std::int64_t past_len = 0;   // P
  std::int64_t chunk_len = 0;  // m

  std::int64_t kv_len() const { return past_len + chunk_len; }
  // N_b: all key blocks, the last one maybe partial.
  std::int64_t num_key_blocks() const { return (kv_len() + block_size - 1) / block_size; }
  // J_cur: blocks [0, J_cur) lie wholly before the chunk, the others hold keys of it.
  std::int64_t num_past_blocks() const { return past_len / block_size; }
  // Past tokens of block J_cur: 0 where the chunk begins on a block.
  std::int64_t straddling_tokens() const { return past_len % block_size; }
  // Q_b. Query block i is block J_cur + i of the text.
  std::int64_t num_query_blocks() const { return num_key_blocks() - num_past_blocks(); }
  std::int64_t block_of_query_block(std::int64_t query_block) const {
    return num_past_blocks() + query_block;
  }
  // Rows [row_begin, row_end) of the chunk that are in the query block.
  std::int64_t row_begin(std::int64_t query_block) const {
    return std::max<std::int64_t>(0, block_of_query_block(query_block) * block_size - past_len);
  }
  std::int64_t row_end(std::int64_t query_block) const {
    return std::min(chunk_len, (block_of_query_block(query_block) + 1) * block_size - past_len);
  }
  // Real tokens [key_begin, key_end) of a key block.
  std::int64_t key_begin(std::int64_t block) const { return block * block_size; }
  std::int64_t key_end(std::int64_t block) const {
    return std::min(kv_len(), (block + 1) * block_size);
  }
  bool operator==(const BlockGrid&) const = default;
};

inline BlockGrid block_grid(const ChunkInfo& chunk, std::int64_t block_size) {
  return {block_size, chunk.begin, chunk.length};
}

// Packed masks: one bit per key block, lowest bit first, each query block's row padded to whole
// bytes: [num_q_heads, Q_b, packed_row_bytes].
inline std::int64_t packed_row_bytes(const BlockGrid& grid) {
  return (grid.num_key_blocks() + 7) / 8;
}
inline std::int64_t packed_mask_bytes(const BlockGrid& grid, int num_q_heads) {
  return num_q_heads * grid.num_query_blocks() * packed_row_bytes(grid);
}
// From values [num_q_heads, Q_b, N_b]; all but 0 count as kept.
std::vector<std::uint8_t> pack_mask(const BlockGrid& grid, std::span<const std::uint8_t> values);
// 0 and 1, [num_q_heads, Q_b, N_b].
std::vector<std::uint8_t> unpack_mask(const BlockGrid& grid, int num_q_heads,
                                      std::span<const std::uint8_t> packed);
// Every block that is not in the future of the query block: what a dense cell attends to.
std::vector<std::uint8_t> packed_causal_mask(const BlockGrid& grid, int num_q_heads);

// The block table of one row: the past blocks that hold any of `selected` (ascending positions),
// then the current ones.
std::vector<std::int32_t> block_table(const BlockGrid& grid,
                                      std::span<const std::int32_t> selected);
// Where a KV head's block stands in a cache of [num_kv_heads, N_b] pages.
inline std::int64_t page_id(const BlockGrid& grid, std::int64_t kv_head, std::int64_t block) {
  return kv_head * grid.num_key_blocks() + block;
}

}  // namespace kvloupe::trace
