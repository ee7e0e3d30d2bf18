#include "core/selection/visibility_selector.h"

#include "core/base/error.h"
#include "core/selection/cell_rows.h"
#include "core/selection/score_memo.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
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
  const std::int64_t candidates = num_candidates(cell);
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

std::vector<RowEvidence> VisibilitySelector::evidence_of(const Cell&, std::int64_t, std::int64_t) {
  return {};
}

std::vector<RowEvidence> VisibilitySelector::evidence(const Cell& whole) {
  const Cell cell = visible_part(whole);
  const std::int64_t candidates = num_candidates(cell);
  const std::int64_t budget = spec_.has_budget() ? spec_.budget(cell.past_len) : candidates;
  if (cell.past_len == 0 || (spec_.has_budget() && candidates <= budget)) return {};
  std::vector<RowEvidence> rows = evidence_of(cell, candidates, budget);
  for (RowEvidence& row : rows)
    for (auto* positions : {&row.begin, &row.end})
      for (std::int32_t& position : *positions)
        position += static_cast<std::int32_t>(cell.first_key);
  return rows;
}

ScoringSelector::ScoringSelector(MethodSpec spec)
    : VisibilitySelector(std::move(spec)),
      whatever_budget_(this->spec().with({{"budget_tokens", "1"}}).canonical()) {}

at::Tensor ScoringSelector::all_scores(const Cell& cell, std::int64_t num_candidates) {
  const auto find = [&] { return scores(cell, num_candidates); };
  const at::Tensor all = cell.memo ? cell.memo->get(cell.chunk, whatever_budget_, find) : find();
  KVLOUPE_CHECK(all.size(0) == cell.num_kv_heads() && all.size(1) == num_candidates);
  return all;
}

std::vector<SelectedRow> ScoringSelector::choose(const Cell& cell, std::int64_t num_candidates,
                                                 std::int64_t budget) {
  const at::Tensor all = all_scores(cell, num_candidates);
  const std::vector<std::int64_t> counts = num_kept(all, budget);
  if (counts.empty()) return rows_of(keep_best_rows(all, budget));
  std::vector<SelectedRow> rows;
  for (std::size_t row = 0; row < counts.size(); ++row)
    rows.push_back(std::move(
        rows_of(keep_best_rows(all.narrow(0, static_cast<std::int64_t>(row), 1), counts[row]))
            .front()));
  return rows;
}

std::vector<RowEvidence> ScoringSelector::evidence_of(const Cell& cell, std::int64_t num_candidates,
                                                      std::int64_t budget) {
  const at::Tensor all = all_scores(cell, num_candidates);
  const std::vector<std::int64_t> counts = num_kept(all, budget);
  const std::vector<float> scores = on_host<float>(all);
  std::vector<RowEvidence> rows;
  for (std::int64_t row = 0; row < all.size(0); ++row)
    rows.push_back(evidence_of_keys(0,
                                    std::span(scores).subspan(row * num_candidates, num_candidates),
                                    counts.empty() ? budget : counts[row]));
  return rows;
}

std::vector<std::int64_t> ScoringSelector::num_kept(const at::Tensor&, std::int64_t) const {
  return {};
}

}  // namespace kvloupe::selection
