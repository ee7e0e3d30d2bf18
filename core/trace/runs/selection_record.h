// What a method kept in one cell, a chunk of one layer: the one form in which selectors answer,
// captures record, traces are read, replays are measured and views draw. run_codec.h takes it to a
// file and back.
#pragma once

#include "core/trace/runs/block_mask.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kvloupe::trace {

// Why a cell attends to all of its candidates.
enum class DenseReason {
  EmptyPast,
  FitsBudget,  // the candidates are no more than the budget
  MethodRule,  // the method does not choose in this layer or phase
};
const char* name_of(DenseReason reason);  // "empty_past", "fits_budget", "method_rule"

struct SelectedRow {
  std::vector<std::int32_t>
      positions;  // absolute, ascending; all candidates where the cell is dense
  // Those of them that were kept by rule (sinks, a window, the newest, a last page, a block that
  // straddles the chunk's begin), ascending. Empty too where a trace does not say.
  std::vector<std::int32_t> forced{};
  std::int64_t ties_at_cut = 0;  // left out although they scored as the last one kept; not recorded
  bool operator==(const SelectedRow&) const = default;
};

// What a block method decided natively, before any union: [num_q_heads, Q_b, N_b] of each mask.
struct BlockMasks {
  BlockGrid grid;
  int num_q_heads = 0;
  std::vector<std::uint8_t> kept;      // 1: the query block attends to the key block; causal
  std::vector<std::uint8_t> forced;    // 1: by rule, within `kept`; empty where it is not known
  std::vector<std::uint8_t> abstains;  // [Q_b] 1: no vote in a union; empty: all vote

  std::size_t index(std::int64_t q_head, std::int64_t query_block, std::int64_t block) const {
    return static_cast<std::size_t>(
        (q_head * grid.num_query_blocks() + query_block) * grid.num_key_blocks() + block);
  }
  bool votes(std::int64_t query_block) const {
    return abstains.empty() || abstains[static_cast<std::size_t>(query_block)] == 0;
  }
  bool operator==(const BlockMasks&) const = default;
};

struct CellRecord {
  std::vector<SelectedRow> rows;  // per KV head, query head or sub-group
  std::optional<DenseReason> dense_reason;
  std::optional<std::int64_t> budget_tokens;  // B of this cell; none without a budget. Not recorded
  // The candidates: all positions before the chunk, in scope `all` those of the chunk too, less
  // what a window hides from all of its queries.
  std::int64_t first_candidate = 0;
  std::int64_t num_candidates = 0;
  // Lane methods, in every cell, dense or not (that speaks of keys): [num_q_heads, head_dim], the
  // rows of the chunk that used the lane. Else empty.
  std::vector<std::int32_t> lane_counts;
  std::optional<BlockMasks> blocks;  // block methods, in cells that are not dense
  // What is attended to is `blocks` itself, by query head and query block, and a row holds the past
  // tokens of the union over its query blocks. Not recorded: it follows from the method.
  bool reads_masks = false;
  std::optional<int> source_layer;  // the layer whose set this one reuses. Not recorded

  std::int64_t end_of_candidates() const { return first_candidate + num_candidates; }
  // There was nothing to choose: no past, or all of it fits the budget.
  bool dense_fallback() const { return dense_reason && *dense_reason != DenseReason::MethodRule; }
  // Every row has all candidates, whether or not there was a choice.
  bool keeps_every_key() const;
  // False where keys were not up for choice: in dense cells, and where only lanes are pruned.
  bool chooses_keys() const { return !dense_reason && (lane_counts.empty() || !keeps_every_key()); }
  std::span<const std::int32_t> lane_counts_of(int q_head, int head_dim) const {
    return std::span(lane_counts)
        .subspan(static_cast<std::size_t>(q_head) * static_cast<std::size_t>(head_dim),
                 static_cast<std::size_t>(head_dim));
  }
};

// A run in one layer.
struct LayerRecord {
  std::vector<CellRecord> cells;  // by chunk, or of one
  // Eviction: [rows][num_tokens], the chunk after which the key died, kAlive if never. Else empty.
  std::vector<std::vector<std::uint16_t>> evict_chunk;
};

}  // namespace kvloupe::trace
