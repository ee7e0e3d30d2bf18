#include "core/selection/eviction/eviction_selector.h"

#include "core/base/error.h"
#include "core/selection/cell_rows.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kvloupe::selection {

namespace {

// 1 for the keys of the pool that are among `members`, both ascending.
std::vector<std::uint8_t> members_in(std::span<const std::int32_t> pool,
                                     const std::vector<std::int32_t>& members) {
  std::vector<std::uint8_t> marks;
  marks.reserve(pool.size());
  for (const std::int32_t position : pool)
    marks.push_back(std::binary_search(members.begin(), members.end(), position) ? 1 : 0);
  return marks;
}

}  // namespace

CellSelection EvictionSelector::select(const Cell& cell) {
  LayerState& state = layers_[cell.layer];
  if (state.rows.empty()) state.rows.resize(static_cast<std::size_t>(cell.num_kv_heads()));
  // Survivors depend on every chunk before: none may be skipped or repeated.
  KVLOUPE_CHECK(cell.past_len == state.num_tokens);
  CellSelection result;
  result.first_candidate = cell.first_candidate();
  result.num_candidates = cell.past_len - result.first_candidate;
  result.budget_tokens = capacity(result.num_candidates);
  if (result.num_candidates == 0) {
    result.dense_reason = DenseReason::EmptyPast;
  } else if (spec_.has_budget() && result.num_candidates <= *result.budget_tokens) {
    result.dense_reason = DenseReason::FitsBudget;
  } else if (!state.begun && (cell.layer < spec_.traits().dense_layers || begins_in_decode())) {
    // Also at the first decode chunk of a method that begins there: nothing has died before it.
    result.dense_reason = DenseReason::MethodRule;
  }
  result.rows = state.rows;
  if (auto pruned = lanes(cell)) add_lanes(std::move(*pruned), result);
  return result;
}

std::vector<std::vector<std::int32_t>> EvictionSelector::evict(const Cell& cell) {
  LayerState& state = layers_[cell.layer];
  KVLOUPE_CHECK(cell.past_len == state.num_tokens && !state.rows.empty());
  state.num_tokens = cell.kv_len();
  const std::int64_t heads = cell.num_kv_heads();
  const std::int64_t budget = budget_after(cell);
  const bool resting = rests(cell);
  if (!resting) state.begun = true;
  Pools pools(static_cast<std::size_t>(heads));
  for (std::int64_t head = 0; head < heads; ++head) {
    pools[head] = std::move(state.rows[head].positions);
    for (std::int64_t position = cell.past_len; position < cell.kv_len(); ++position)
      pools[head].push_back(static_cast<std::int32_t>(position));
  }
  if (!resting) observe(cell, pools);

  std::vector<std::vector<std::int32_t>> evicted(static_cast<std::size_t>(heads));
  state.evidence.assign(keeps_evidence_ ? static_cast<std::size_t>(heads) : 0, {});
  // As for methods whose chunk's last queries vote.
  const std::int64_t operations =
      32 * cell.gqa_group_size() * static_cast<std::int64_t>(pools.front().size()) * cell.k.size(2);
  std::vector<Pool> parts(static_cast<std::size_t>(heads));
  std::vector<Survivors> left(static_cast<std::size_t>(heads));
  std::vector<Reasons> reasons(static_cast<std::size_t>(heads));
  for_each_item_on(cell.k.device(), heads, operations, [&](std::int64_t head) {
    // What leaves the window is never seen again.
    const auto hidden = num_hidden(pools[head], cell.softmax, cell.kv_len());
    const Pool& pool = parts[head] = {
        pools[head], std::span(pools[head]).subspan(static_cast<std::size_t>(hidden))};
    if (resting || static_cast<std::int64_t>(pool.staying.size()) <= budget)
      left[head].row = SelectedRow{{pool.staying.begin(), pool.staying.end()}};
    else
      left[head] = survivors(cell, head, pool, budget, keeps_evidence_ ? &reasons[head] : nullptr);
  });
  state.rows = rows_of_all(std::move(left), parts);
  for (std::int64_t head = 0; head < heads; ++head) {
    const SelectedRow& row = state.rows[head];
    const auto& staying = parts[head].staying;
    if (!reasons[head].scores.empty()) {
      if (reasons[head].first.empty()) reasons[head].first = members_in(staying, row.forced);
      state.evidence[head] = {{staying.begin(), staying.end()},
                              {},
                              {reasons[head].scores.begin(), reasons[head].scores.end()},
                              std::move(reasons[head].first),
                              static_cast<std::int64_t>(row.positions.size())};
    }
    std::set_difference(pools[head].begin(), pools[head].end(), row.positions.begin(),
                        row.positions.end(), std::back_inserter(evicted[head]));
  }
  return evicted;
}

std::vector<SelectedRow> EvictionSelector::rows_of_all(std::vector<Survivors> survivors,
                                                       const std::vector<Pool>& pools) {
  std::vector<KeptRows> kept;
  for (Survivors& of_head : survivors) kept.push_back(std::move(of_head.kept));
  std::vector<SelectedRow> rows = rows_of(kept);
  for (std::size_t head = 0; head < rows.size(); ++head) {
    SelectedRow& row = survivors[head].row;
    if (kept[head].indices.defined()) {
      std::vector<std::int32_t> others = members_at(pools[head].staying, rows[head].positions);
      others.insert(others.end(), row.positions.begin(), row.positions.end());
      row.positions = std::move(others);
      row.ties_at_cut = rows[head].ties_at_cut;
    }
    rows[head] = std::move(row);
  }
  return rows;
}

bool EvictionSelector::rests(const Cell& cell) const {
  const Traits& traits = spec_.traits();
  if (cell.layer < traits.dense_layers) return true;
  if (cell.phase == trace::Phase::Decode) return !traits.acts_in_decode;
  return begins_in_decode() && !layers_.at(cell.layer).begun;
}

void EvictionSelector::observe(const Cell&, const Pools&) {}

std::int64_t EvictionSelector::capacity(std::int64_t num_tokens) const {
  return spec_.budget(num_tokens);
}

std::optional<PrunedLanes> EvictionSelector::lanes(const Cell&) { return std::nullopt; }

std::vector<std::vector<std::int32_t>> EvictionSelector::alive(int layer) const {
  std::vector<std::vector<std::int32_t>> result;
  const auto found = layers_.find(layer);
  if (found == layers_.end()) return result;
  for (const SelectedRow& row : found->second.rows) result.push_back(row.positions);
  return result;
}

std::vector<RowEvidence> EvictionSelector::evidence(const Cell& cell) {
  const auto found = layers_.find(cell.layer);
  return found == layers_.end() ? std::vector<RowEvidence>() : found->second.evidence;
}

std::vector<std::int32_t> members_at(std::span<const std::int32_t> pool,
                                     const std::vector<std::int32_t>& indices) {
  std::vector<std::int32_t> members;
  members.reserve(indices.size());
  for (const std::int32_t index : indices) members.push_back(pool[index]);
  return members;
}

}  // namespace kvloupe::selection
