// The pruned dot product that the AQUA methods share. In the basis P of its KV head a query row has
// the lanes q^ = q P, and a key k^ = k P; only the lanes I of the row enter
//   S^ = sum over c in I of q^_c k^_c = <P mask_I(q^), k>,  P orthonormal.
// The right side is how it is computed: attention reads the stored keys, with another query.
#pragma once

#include "core/selection/lane_counts.h"
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
  std::int64_t usable = 0;  // lanes [0, usable) exist at all
  std::int64_t kept = 0;    // of these
};

struct PrunedLanes {
  at::Tensor queries;                // [num_q_heads, m, head_dim] fp32: P mask_I(q^)
  std::vector<std::int32_t> counts;  // [num_q_heads, head_dim] rows of the chunk that used the lane
};

// Makes them part of what a selector answers.
void add_lanes(PrunedLanes lanes, CellSelection& selection);

// Each row of the cell's queries, pruned. The bits of a row depend on that row and P alone.
PrunedLanes prune_lanes(const Cell& cell, const trace::Basis& basis, const LanePruning& pruning);

}  // namespace kvloupe::selection
