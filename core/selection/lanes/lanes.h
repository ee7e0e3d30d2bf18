// The pruned dot product that the AQUA methods share. In the basis P of its KV head a query row has
// the lanes q^ = q P, and a key k^ = k P; only the lanes I of the row enter
//   S^ = sum over c in I of q^_c k^_c = <P mask_I(q^), k>,  P orthonormal.
// Attention computes the left side, from a rotated copy of the keys (key_copies.h). The right side
// says what it is: the scores of another query with the stored keys.
#pragma once

#include "core/selection/lanes/key_copies.h"
#include "core/selection/lanes/lane_counts.h"
#include "core/selection/selector.h"

#include <cstdint>
#include <vector>

namespace kvloupe::selection {

enum class LaneChoice {
  LargestOfQuery,  // by |q^_c|, for each query head and row; equal ones by lane
  Leading,         // the first lanes for every row
};

struct LanePruning {
  LaneChoice choice = LaneChoice::LargestOfQuery;
  std::int64_t usable = 0;    // lanes [0, usable) exist at all
  std::int64_t kept = 0;      // of these
  bool slice_values = false;  // values too are held in their first `usable` lanes
};

struct PrunedLanes {
  LaneScores scores;
  std::vector<std::int32_t> counts;  // [num_q_heads, head_dim] rows of the chunk that used the lane
};

// Makes them part of what a selector answers.
void add_lanes(PrunedLanes lanes, CellSelection& selection);

// Each row of the cell's queries, pruned, and the keys to score with: by lane where each row uses
// lanes of its own, as short rows of the leading lanes else. The lanes of a row depend on that row
// and P alone.
PrunedLanes prune_lanes(const Cell& cell, const BasisPtr& basis, const LanePruning& pruning);

// What the chunk attends to with all its keys, [num_q_heads, m, head_dim]: sliced values are summed as
// they are stored, and only the sums are turned back.
at::Tensor attend_lanes(const Cell& cell, const LaneScores& scores);

// P mask_I(q^), [num_q_heads, m, head_dim] fp32, of scores made for this cell.
at::Tensor whole_queries(const Cell& cell, const LaneScores& scores);

}  // namespace kvloupe::selection
