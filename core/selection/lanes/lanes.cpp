#include "core/selection/lanes/lanes.h"

#include "core/base/error.h"
#include "core/selection/cell_rows.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace kvloupe::selection {

void add_lanes(PrunedLanes lanes, CellSelection& selection) {
  selection.lanes = std::move(lanes.scores);
  selection.lane_counts = std::move(lanes.counts);
}

PrunedLanes prune_lanes(const Cell& cell, const BasisPtr& basis, const LanePruning& pruning) {
  const std::int64_t dim = cell.k.size(2), heads = cell.num_q_heads(), kept = pruning.kept;
  KVLOUPE_CHECK(basis->head_dim == dim && basis->num_kv_heads == cell.num_kv_heads());
  KVLOUPE_CHECK(0 < kept && kept <= pruning.usable && pruning.usable <= dim);
  const bool leading = pruning.choice == LaneChoice::Leading;
  const std::int64_t rotated = leading ? kept : pruning.usable;
  PrunedLanes result;
  attention::LaneQueries& queries = result.scores.queries;
  result.scores.basis = basis;
  result.scores.keys = copied_keys(cell, {basis, rotated, !leading});
  const at::Tensor lanes = rotate_rows(cell.q, directions_of(cell, *basis), rotated);
  if (pruning.slice_values)
    result.scores.values = rows_of_copy(
        cell, copied_keys(cell, {basis, pruning.usable, /*by_lane=*/false, /*of_values=*/true}));
  const auto rows = static_cast<std::int32_t>(cell.chunk_len);
  if (leading) {
    queries.values = lanes;
    result.counts.assign(static_cast<std::size_t>(heads * dim), 0);
    for (std::int64_t head = 0; head < heads; ++head)
      std::fill_n(result.counts.begin() + head * dim, kept, rows);
    return result;
  }
  const LargestLanes largest = largest_lanes(lanes, kept);
  queries.values = largest.values;
  queries.lanes = largest.lanes;
  result.counts.assign(static_cast<std::size_t>(heads * dim), 0);
  const std::vector<std::int32_t> counts = on_host<std::int32_t>(largest.counts);
  for (std::int64_t head = 0; head < heads; ++head)
    std::copy_n(counts.begin() + head * rotated, rotated, result.counts.begin() + head * dim);
  return result;
}

at::Tensor attend_lanes(const Cell& cell, const LaneScores& scores) {
  if (!scores.values.defined())
    return attention::lane_chunk_attention(scores.queries, scores.keys, cell.v, cell.softmax);
  // Those that a window hides have no sliced values: positions count from the first that has.
  attention::LaneKeys keys = scores.keys;
  keys.first_position -= cell.first_key + cell.kv_len() - scores.values.size(1);
  const at::Tensor lanes =
      attention::lane_chunk_attention(scores.queries, keys, scores.values, cell.softmax);
  const std::int64_t heads = cell.num_kv_heads(), stored = lanes.size(2);
  const at::Tensor directions = value_directions_of(cell, *scores.basis).narrow(2, 0, stored);
  return at::bmm(lanes.to(at::kFloat).view({heads, -1, stored}), directions.transpose(1, 2))
      .view({cell.num_q_heads(), cell.chunk_len, cell.v.size(2)})
      .to(cell.v.scalar_type());
}

at::Tensor whole_queries(const Cell& cell, const LaneScores& scores) {
  const std::int64_t dim = cell.k.size(2), heads = cell.num_kv_heads();
  const attention::LaneQueries& queries = scores.queries;
  at::Tensor lanes = at::zeros({cell.num_q_heads(), cell.chunk_len, dim}, queries.values.options());
  if (queries.by_lane())
    lanes.scatter_(2, queries.lanes.to(at::kLong), queries.values);
  else
    lanes.narrow(2, 0, queries.values.size(2)).copy_(queries.values);
  const at::Tensor directions = directions_of(cell, *scores.basis);
  return at::bmm(lanes.view({heads, -1, dim}), directions.transpose(1, 2))
      .view({cell.num_q_heads(), cell.chunk_len, dim});
}

}  // namespace kvloupe::selection
