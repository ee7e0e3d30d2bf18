// What becomes of a block method's masks on the way to attention: native masks, the union over the
// query blocks, the union over the heads that share a row, and the KV set (table) that is read.
// Density counts (query, key) pairs, each causal, against three denominators:
//   past       pairs with past keys:             m P
//   causal     pairs that attention could see:   m P + m (m + 1) / 2
//   rectangle  all pairs of the product:         m T
// Sparsity is 1 - density. Whatever `lowering=union` unites can only grow, so density does not fall
// from stage to stage; it may where a budget ranks blocks, where query blocks do not vote, and where
// a method keeps single keys of its blocks (MInference).
#pragma once

#include "core/trace/runs/selection_record.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kvloupe::replay {

using trace::BlockMasks;

// Shares of pairs.
struct PairShares {
  double past = 0, causal = 0, rectangle = 0;
};
struct StageDensity {
  PairShares kept;
  PairShares forced;  // of these, by rule
};

enum class BlockState : std::uint8_t {
  Future,      // no query of the block sees it
  Dropped,     // in the past (or the chunk) and not kept
  Kept,        // by score
  Forced,      // by rule
  Straddling,  // holds the chunk's first tokens, and past ones, which are always kept
  Current,     // of the chunk alone
};
inline constexpr int kNumBlockStates = 6;

// One row of a selection: a KV head or a sub-group of its query heads.
struct BlockReport {
  trace::BlockGrid grid;
  std::vector<int> q_heads;
  bool knows_forced = false;
  std::vector<BlockState> mask;         // [q_heads, Q_b, N_b]
  std::vector<BlockState> query_union;  // [q_heads, N_b]
  std::vector<BlockState> group_union;  // [N_b]
  std::vector<BlockState> table;        // [N_b] what is read; the chunk is open
  std::vector<std::int32_t> pages;      // kept blocks of `table`, ascending
  StageDensity native, after_query_union, after_group_union, read;  // means over the heads
  // The union over all heads of the KV head, where the row has some of them only.
  std::optional<StageDensity> whole_group;
};

// `selected`: the row's past positions, ascending. The row has the query heads [first_q_head,
// first_q_head + q_heads_per_row).
BlockReport block_report(const BlockMasks& masks, std::span<const std::int32_t> selected,
                         int first_q_head, int q_heads_per_row, int gqa_group_size);

// Shares of a chunk that reads `kept_past` past keys for all its queries, and itself.
PairShares shares_of_set(const trace::BlockGrid& grid, std::int64_t kept_past);
// Shares of the native masks, mean over query heads [first, first + count).
PairShares native_shares(const BlockMasks& masks, int first, int count);

}  // namespace kvloupe::replay
