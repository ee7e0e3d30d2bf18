#include "core/selection/lanes.h"

#include "core/base/error.h"
#include "core/base/rounded_down.h"
#include "core/selection/cell_rows.h"
#include "core/selection/ranking.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace kvloupe::selection {
namespace {

const float* directions_of(const Cell& cell, const trace::Basis& basis, std::int64_t kv_head) {
  const auto found = basis.layers.find(cell.layer);
  if (found == basis.layers.end())
    throw input_error(fmt::format("layer {} cannot be rotated", cell.layer),
                      fmt::format("the basis from {} does not hold it", basis.source),
                      "name other layers, or make the basis again by kvloupe calibrate");
  return found->second.vectors.data() + kv_head * basis.head_dim * basis.head_dim;
}

// [channel, lane] -> [lane, channel].
std::vector<float> transposed(const float* directions, std::int64_t dim) {
  std::vector<float> result(static_cast<std::size_t>(dim * dim));
  for (std::int64_t channel = 0; channel < dim; ++channel)
    for (std::int64_t lane = 0; lane < dim; ++lane)
      result[lane * dim + channel] = directions[channel * dim + lane];
  return result;
}

// out += factor * row.
void add_scaled(const float* row, float factor, std::int64_t dim, float* out) {
  for (std::int64_t i = 0; i < dim; ++i) out[i] += factor * row[i];
}

std::vector<std::int32_t> chosen_lanes(const std::vector<float>& lanes,
                                       const LanePruning& pruning) {
  if (pruning.choice == LaneChoice::Leading) {
    std::vector<std::int32_t> leading(static_cast<std::size_t>(pruning.kept));
    std::iota(leading.begin(), leading.end(), 0);
    return leading;
  }
  std::vector<float> magnitudes(lanes.begin(), lanes.begin() + pruning.usable);
  for (float& value : magnitudes) value = std::abs(value);
  return keep_best(magnitudes, pruning.kept).indices;
}

}  // namespace

void add_lanes(PrunedLanes lanes, CellSelection& selection) {
  selection.lane_queries = std::move(lanes.queries);
  selection.lane_counts = std::move(lanes.counts);
}

PrunedLanes prune_lanes(const Cell& cell, const trace::Basis& basis, const LanePruning& pruning) {
  const std::int64_t dim = cell.k.size(2), heads = cell.num_q_heads();
  KVLOUPE_CHECK(basis.head_dim == dim && basis.num_kv_heads == cell.num_kv_heads());
  KVLOUPE_CHECK(0 < pruning.kept && pruning.kept <= pruning.usable && pruning.usable <= dim);
  PrunedLanes result;
  result.queries = at::zeros({heads, cell.chunk_len, dim}, at::kFloat);
  result.counts.assign(static_cast<std::size_t>(heads * dim), 0);
  float* queries = result.queries.mutable_data_ptr<float>();
  std::int32_t* counts = result.counts.data();
  directions_of(cell, basis, 0);  // what it throws must not cross the threads below
  for_each_item(heads, 2 * cell.chunk_len * dim * dim, [&](std::int64_t head) {
    const float* directions = directions_of(cell, basis, head / cell.gqa_group_size());
    const std::vector<float> by_lane = transposed(directions, dim);
    for (std::int64_t row = 0; row < cell.chunk_len; ++row) {
      const float* query = query_row(cell, head, row);
      std::vector<float> lanes(static_cast<std::size_t>(dim), 0.0F);
      for (std::int64_t channel = 0; channel < dim; ++channel)
        add_scaled(directions + channel * dim, query[channel], dim, lanes.data());
      float* pruned = queries + (head * cell.chunk_len + row) * dim;
      for (const std::int32_t lane : chosen_lanes(lanes, pruning)) {
        add_scaled(by_lane.data() + lane * dim, lanes[lane], dim, pruned);
        ++counts[head * dim + lane];
      }
    }
  });
  return result;
}

}  // namespace kvloupe::selection
