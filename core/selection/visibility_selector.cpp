#include "core/selection/visibility_selector.h"

#include "core/base/error.h"
#include "core/selection/cell_rows.h"
#include "core/selection/ranking.h"
#include "core/selection/score_memo.h"

#include <algorithm>
#include <span>
#include <utility>

namespace kvloupe::selection {

bool VisibilitySelector::dense_by_rule(const Cell& cell) const {
  return cell.phase == trace::Phase::Decode && !spec_.traits().acts_in_decode;
}

void VisibilitySelector::note_dense(const Cell&, std::int64_t, std::int64_t) {}

std::optional<PrunedLanes> VisibilitySelector::lanes(const Cell&) { return std::nullopt; }

CellSelection VisibilitySelector::select(const Cell& whole) {
  const Cell cell = visible_part(whole);
  CellSelection result = select_visible(cell);
  result.first_candidate = cell.first_key;
  if (cell.first_key == 0) return result;
  const auto shift = static_cast<std::int32_t>(cell.first_key);
  for (SelectedRow& row : result.rows)
    for (auto* positions : {&row.positions, &row.forced})
      for (std::int32_t& position : *positions) position += shift;
  return result;
}

CellSelection VisibilitySelector::select_visible(const Cell& cell) {
  const bool scope_all = spec_.scope() == BudgetScope::All;
  const std::int64_t candidates = scope_all ? cell.kv_len() : cell.past_len;
  CellSelection result;
  result.num_candidates = candidates;
  if (spec_.has_budget()) result.budget_tokens = spec_.budget(cell.past_len);
  if (cell.past_len == 0) {
    result.dense_reason = DenseReason::EmptyPast;
  } else if (result.budget_tokens && candidates <= *result.budget_tokens) {
    result.dense_reason = DenseReason::FitsBudget;
  } else if (cell.layer < spec_.traits().dense_layers || dense_by_rule(cell)) {
    result.dense_reason = DenseReason::MethodRule;
  }
  const std::int64_t budget = result.budget_tokens.value_or(candidates);
  if (auto pruned = lanes(cell)) add_lanes(std::move(*pruned), result);
  if (!result.dense_reason) {
    result.rows = choose(cell, candidates, budget);
    return result;
  }
  note_dense(cell, candidates, std::min(budget, candidates));
  result.rows.assign(static_cast<std::size_t>(num_rows(cell)), SelectedRow{range(0, candidates)});
  return result;
}

ScoringSelector::ScoringSelector(MethodSpec spec)
    : VisibilitySelector(std::move(spec)),
      whatever_budget_(this->spec().with({{"budget_tokens", "1"}}).canonical()) {}

std::vector<SelectedRow> ScoringSelector::choose(const Cell& cell, std::int64_t num_candidates,
                                                 std::int64_t budget) {
  const auto find = [&] { return scores(cell, num_candidates); };
  const std::vector<float> own = cell.memo ? std::vector<float>() : find();
  const std::vector<float>& all =
      cell.memo ? cell.memo->get(cell.chunk, whatever_budget_, find) : own;
  const std::int64_t heads = cell.num_kv_heads();
  KVLOUPE_CHECK(static_cast<std::int64_t>(all.size()) == heads * num_candidates);
  std::vector<SelectedRow> rows(static_cast<std::size_t>(heads));
  for_each_item(heads, 128 * num_candidates, [&](std::int64_t head) {
    const auto row = std::span(all).subspan(head * num_candidates, num_candidates);
    Kept kept = keep_best(row, num_kept(row, budget));
    rows[head].positions = std::move(kept.indices);
    rows[head].ties_at_cut = kept.ties_at_cut;
  });
  return rows;
}

std::int64_t ScoringSelector::num_kept(std::span<const float>, std::int64_t budget) const {
  return budget;
}

}  // namespace kvloupe::selection
