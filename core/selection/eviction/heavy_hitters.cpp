#include "core/selection/eviction/heavy_hitters.h"

#include "core/base/error.h"
#include "core/base/rounded_down.h"
#include "core/selection/cell_rows.h"
#include "core/selection/eviction/eviction_selector.h"
#include "core/selection/ranking.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace kvloupe::selection {
namespace {

// Rows whose probabilities are summed in fp32 before they join the tally.
constexpr std::int64_t kRowsAtOnce = 128;

// The sum over the chunk's rows and the heads of the group of p, for each key of the pool.
at::Tensor masses_of(const Cell& cell, std::int64_t kv_head,
                     const std::vector<std::int32_t>& pool) {
  const auto num_keys = static_cast<std::int64_t>(pool.size());
  const at::Tensor keys = gather_keys(cell, kv_head, pool);
  at::Tensor masses = at::zeros({num_keys}, keys.options().dtype(at::kDouble));
  for (std::int64_t first = 0; first < cell.chunk_len; first += kRowsAtOnce) {
    const std::int64_t end = std::min(first + kRowsAtOnce, cell.chunk_len);
    const RowSets sets = sets_over_pool(cell, kv_head, range(first, end), pool);
    const std::int64_t seen = sets.visible.back();  // no row of the block sees more
    masses.narrow(0, 0, seen)
        .add_(reduce_probabilities(sets, keys.narrow(1, 0, seen), ColumnReduce::Sum)
                  .sum({0}, false, at::kDouble));
  }
  return masses;
}

}  // namespace

void HeavyHitters::observe(const Cell& cell, const std::vector<std::vector<std::int32_t>>& pools) {
  std::vector<at::Tensor> masses(pools.size());
  const std::int64_t operations = cell.gqa_group_size() * cell.chunk_len *
                                  static_cast<std::int64_t>(pools.front().size()) *
                                  (cell.k.size(2) + 16);
  for_each_item_on(
      cell.k.device(), static_cast<std::int64_t>(pools.size()), operations,
      [&](std::int64_t kv_head) { masses[kv_head] = masses_of(cell, kv_head, pools[kv_head]); });
  add(cell, pools, all_on_host<double>(masses));
}

void HeavyHitters::add(const Cell& cell, const std::vector<std::vector<std::int32_t>>& pools,
                       std::vector<std::vector<double>> masses) {
  std::vector<Tally>& tallies = layers_[cell.layer];
  tallies.resize(pools.size());
  for (std::size_t head = 0; head < pools.size(); ++head) {
    const std::vector<std::int32_t>& pool = pools[head];
    std::vector<double>& added = masses[head];
    Tally& tally = tallies[head];
    // Both lists ascend: survivors take their old sums along.
    std::size_t old = 0;
    for (std::size_t i = 0; i < pool.size(); ++i) {
      added[i] /= static_cast<double>(cell.gqa_group_size());
      while (old < tally.positions.size() && tally.positions[old] < pool[i]) ++old;
      if (old < tally.positions.size() && tally.positions[old] == pool[i])
        added[i] += tally.mass[old];
    }
    tally = {pool, std::move(added)};
  }
}

std::vector<float> HeavyHitters::scores(const Cell& cell, std::int64_t kv_head) const {
  const Tally& tally = layers_.at(cell.layer)[kv_head];
  std::vector<float> scores;
  scores.reserve(tally.mass.size());
  for (std::size_t i = 0; i < tally.mass.size(); ++i) {
    const std::int64_t seen_by = by_age_ ? cell.kv_len() - tally.positions[i] : 1;
    scores.push_back(static_cast<float>(tally.mass[i] / static_cast<double>(seen_by)));
  }
  return scores;
}

SelectedRow HeavyHitters::survivors(const Cell& cell, std::int64_t kv_head,
                                    std::span<const std::int32_t> pool, std::int64_t budget,
                                    std::vector<float>* scores_of_pool) const {
  std::vector<float> rest = scores(cell, kv_head);
  // Keys that were observed and have left the window.
  KVLOUPE_CHECK(rest.size() >= pool.size());
  rest.erase(rest.begin(), rest.end() - static_cast<std::ptrdiff_t>(pool.size()));
  if (scores_of_pool != nullptr) *scores_of_pool = rest;
  const auto recent =
      static_cast<std::int64_t>(rounded_down(static_cast<double>(budget) * recent_ratio_));
  rest.resize(pool.size() - static_cast<std::size_t>(recent));
  const Kept heavy = keep_best(rest, budget - recent);
  SelectedRow row{
      members_at(pool, heavy.indices), {pool.end() - recent, pool.end()}, heavy.ties_at_cut};
  row.positions.insert(row.positions.end(), row.forced.begin(), row.forced.end());
  return row;
}

}  // namespace kvloupe::selection
