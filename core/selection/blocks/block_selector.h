// From the native masks of a block method to the KV sets that a chunk attends to: one row per KV
// head (compact_attention: per KV head or sub-group of query heads), whole blocks, the chunk itself
// open.
//   native: as in the methods' papers, nothing is united: one row per query head, whose query blocks
//           read the blocks of their own masks, the chunk's included; the row holds the past ones of
//           them together
//   union:  CompactAttention's: the past blocks that any query block and any head of the row keeps
//   budget: the floor(B/block_size) best past blocks by the mean of the scores over the row's heads
//           and the query blocks, those kept by rule first (rows per KV head only)
// Query blocks that abstain count in neither union nor budget.
// The past tokens of a block that straddles the chunk's begin are selected, and forced.
// (CompactAttention; jiwonsong-dev/CompactAttention.)
#pragma once

#include "core/selection/blocks/blocks.h"
#include "core/selection/selector.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kvloupe::selection {

struct Setup;  // method.h

inline BlockGrid grid_of(const Cell& cell, std::int64_t block_size) {
  return {block_size, cell.past_len, cell.chunk_len};
}

// A block method without its lowering: what each query head's query blocks attend to. Threshold
// methods keep no state between chunks; a masker may cache what it derived of earlier keys only if
// the result is the same without the cache.
class BlockMasker {
 public:
  virtual ~BlockMasker() = default;
  // The cell has past keys (P > 0) and is a prefill chunk. Blocks that a layer's window hides from
  // a query block (first_block) have no share in what is compared; bits set there are cleared.
  virtual BlockChoice choose(const Cell& cell) = 0;
  // Selector::sampled_rows().
  virtual std::vector<std::vector<std::int32_t>> sampled_rows(const Cell&) { return {}; }
};

// The maskers that compact_attention can build on too. `setup.spec` has the method's own parameters
// (methods/<id>.cpp).
std::unique_ptr<BlockMasker> make_flash_prefill_masker(const Setup& setup);
std::unique_ptr<BlockMasker> make_xattention_masker(const Setup& setup);
std::unique_ptr<BlockMasker> make_seer_attention_masker(const Setup& setup);

// Past blocks kept for the query heads [first, first + count): the union over them and the query
// blocks that vote, or all of them. [J_cur], 1 kept, 2 kept and forced (by any of them).
enum class Voters { Voting, All };
std::vector<std::uint8_t> union_of(const BlockChoice& choice, std::int64_t first,
                                   std::int64_t count, Voters voters = Voters::Voting);

// The tokens of the past blocks kept (non-zero), and those of the straddling block, from the first
// candidate on.
SelectedRow row_of_blocks(const BlockGrid& grid, std::span<const std::uint8_t> kept,
                          std::int64_t first_candidate = 0);

// The first block of which a row of the query block sees a key; 0 without a window.
inline std::int64_t first_block(const BlockGrid& grid, const SoftmaxForm& softmax,
                                std::int64_t query_block) {
  return softmax.first_visible(grid.past_len + grid.row_begin(query_block)) / grid.block_size;
}

// The selector of a block method: dense where P = 0 (fallback) and in decode (by rule), else the
// masker's choice lowered as above over rows of `layout`.
std::unique_ptr<Selector> make_block_selector(const MethodSpec& spec, RowLayout layout,
                                              std::unique_ptr<BlockMasker> masker);
// Over the rows of the method; each query head is one where that is ablated.
std::unique_ptr<Selector> make_block_selector(const Setup& setup,
                                              std::unique_ptr<BlockMasker> masker);

}  // namespace kvloupe::selection
