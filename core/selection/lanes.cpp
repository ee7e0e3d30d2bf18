#include "core/selection/lanes.h"

#include "core/base/error.h"
#include "core/selection/cell_rows.h"
#include "core/selection/lane_kernels.h"
#include "core/selection/ranking.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace kvloupe::selection {
namespace {

// The `count` largest magnitudes of `lanes`, ascending; equal ones by lane.
void choose_largest(std::span<const float> lanes, std::int64_t count, std::vector<float>& scratch,
                    std::int32_t* chosen) {
  scratch.resize(lanes.size());
  std::transform(lanes.begin(), lanes.end(), scratch.begin(),
                 [](float lane) { return std::abs(lane); });
  if (std::any_of(scratch.begin(), scratch.end(), [](float size) { return std::isnan(size); })) {
    std::ranges::copy(keep_best(scratch, count).indices, chosen);
    return;
  }
  const auto last = scratch.begin() + (count - 1);
  std::nth_element(scratch.begin(), last, scratch.end(), std::greater<>());
  const float cut = *last;
  auto ties = count - std::count_if(lanes.begin(), lanes.end(),
                                    [&](float lane) { return std::abs(lane) > cut; });
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    const float size = std::abs(lanes[lane]);
    if (size > cut || (size == cut && ties-- > 0)) *chosen++ = static_cast<std::int32_t>(lane);
  }
}

}  // namespace

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
  queries.values = at::empty({heads, cell.chunk_len, kept}, at::kFloat);
  if (!leading) queries.lanes = at::empty({heads, cell.chunk_len, kept}, at::kInt);
  float* values = queries.values.mutable_data_ptr<float>();
  std::int32_t* lanes = leading ? nullptr : queries.lanes.mutable_data_ptr<std::int32_t>();
  result.counts.assign(static_cast<std::size_t>(heads * dim), 0);
  for_each_item(heads, cell.chunk_len * dim * (rotated + 16), [&](std::int64_t head) {
    const float* directions = directions_of(cell, *basis, head / cell.gqa_group_size());
    const std::int64_t first = head * cell.chunk_len * kept;
    std::int32_t* counts = result.counts.data() + head * dim;
    if (leading) {
      rotate_rows(query_row(cell, head, 0), cell.chunk_len, directions, dim, kept, values + first);
      std::fill_n(counts, kept, static_cast<std::int32_t>(cell.chunk_len));
      return;
    }
    std::vector<float> all(static_cast<std::size_t>(cell.chunk_len * rotated)), scratch;
    rotate_rows(query_row(cell, head, 0), cell.chunk_len, directions, dim, rotated, all.data());
    for (std::int64_t row = 0; row < cell.chunk_len; ++row) {
      const std::span of_row(all.data() + row * rotated, static_cast<std::size_t>(rotated));
      std::int32_t* chosen = lanes + first + row * kept;
      choose_largest(of_row, kept, scratch, chosen);
      for (std::int64_t i = 0; i < kept; ++i) {
        values[first + row * kept + i] = of_row[chosen[i]];
        ++counts[chosen[i]];
      }
    }
  });
  return result;
}

at::Tensor whole_queries(const Cell& cell, const LaneScores& scores) {
  const std::int64_t dim = cell.k.size(2), kept = scores.queries.values.size(2);
  at::Tensor queries = at::zeros({cell.num_q_heads(), cell.chunk_len, dim}, at::kFloat);
  float* out = queries.mutable_data_ptr<float>();
  const float* values = scores.queries.values.const_data_ptr<float>();
  const std::int32_t* lanes =
      scores.queries.by_lane() ? scores.queries.lanes.const_data_ptr<std::int32_t>() : nullptr;
  directions_of(cell, *scores.basis, 0);  // what it throws must not cross the threads below
  for_each_item(cell.num_q_heads(), cell.chunk_len * dim * kept, [&](std::int64_t head) {
    const std::int64_t kv_head = head / cell.gqa_group_size();
    const at::Tensor by_lane =
        at::from_blob(const_cast<float*>(directions_of(cell, *scores.basis, kv_head)), {dim, dim})
            .t()
            .contiguous();
    for (std::int64_t row = head * cell.chunk_len; row < (head + 1) * cell.chunk_len; ++row)
      for (std::int64_t i = row * kept; i < (row + 1) * kept; ++i) {
        const std::int64_t lane = lanes == nullptr ? i - row * kept : lanes[i];
        const float* direction = by_lane.const_data_ptr<float>() + lane * dim;
        for (std::int64_t c = 0; c < dim; ++c) out[row * dim + c] += values[i] * direction[c];
      }
  });
  return queries;
}

}  // namespace kvloupe::selection
