#include "core/selection/visibility_selector.h"

#include "core/base/error.h"
#include "core/selection/cell_rows.h"
#include "core/selection/score_memo.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace kvloupe::selection {

bool VisibilitySelector::dense_by_rule(const Cell& cell) const {
  return cell.phase == trace::Phase::Decode && !spec_.traits().acts_in_decode;
}

void VisibilitySelector::note_dense(const Cell&, std::int64_t, std::int64_t) {}

std::optional<PrunedLanes> VisibilitySelector::lanes(const Cell&) { return std::nullopt; }

CellSelection VisibilitySelector::select(const Cell& whole) {
  CellSelection result = select_there(whole);
  bring_rows(result);
  return result;
}

CellSelection VisibilitySelector::select_there(const Cell& whole) {
  const Cell cell = visible_part(whole);
  CellSelection result = select_visible(cell);
  result.first_candidate = cell.first_key;
  if (cell.first_key == 0) return result;
  const auto shift = static_cast<std::int32_t>(cell.first_key);
  if (result.pending) result.pending->indices = result.pending->indices + shift;
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
    // Keys that are moved, and those of the chunk among the candidates, are gathered by the host's tables.
    const bool may_stay = !cell.q.is_cpu() && !result.lanes && spec_.scope() == BudgetScope::Past &&
                          !spec_.traits().reassigns_positions;
    Chosen chosen = may_stay ? choose_there(cell, candidates, budget)
                             : Chosen{choose(cell, candidates, budget), {}};
    result.rows = std::move(chosen.rows);
    result.pending = std::move(chosen.there);
    return result;
  }
  note_dense(cell, candidates, std::min(budget, candidates));
  result.rows.assign(static_cast<std::size_t>(num_rows(cell)), SelectedRow{range(0, candidates)});
  return result;
}

VisibilitySelector::Chosen VisibilitySelector::choose_there(const Cell& cell,
                                                            std::int64_t num_candidates,
                                                            std::int64_t budget) {
  return {choose(cell, num_candidates, budget), {}};
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
  Chosen chosen = choose_there(cell, num_candidates, budget);
  return chosen.there ? rows_of(*chosen.there) : std::move(chosen.rows);
}

VisibilitySelector::Chosen ScoringSelector::choose_there(const Cell& cell,
                                                         std::int64_t num_candidates,
                                                         std::int64_t budget) {
  const at::Tensor all = all_scores(cell, num_candidates);
  const auto kept = shares(all, budget);
  if (!kept) return {{}, keep_best_rows(all, budget)};
  const at::Tensor falling = all.gather(1, kept->order.to(at::kLong));
  const at::Tensor cut = falling.gather(1, (kept->counts - 1).unsqueeze(1));
  return {rows_of(kept->order.narrow(1, 0, std::min(budget, num_candidates)), kept->counts,
                  falling.ge(cut).sum(1) - kept->counts),
          {}};
}

std::vector<RowEvidence> ScoringSelector::evidence_of(const Cell& cell, std::int64_t num_candidates,
                                                      std::int64_t budget) {
  const at::Tensor all = all_scores(cell, num_candidates);
  const auto kept = shares(all, budget);
  const auto counts = kept ? on_host<std::int64_t>(kept->counts) : std::vector<std::int64_t>();
  const std::vector<float> scores = on_host<float>(all);
  std::vector<RowEvidence> rows;
  for (std::int64_t row = 0; row < all.size(0); ++row)
    rows.push_back(evidence_of_keys(0,
                                    std::span(scores).subspan(row * num_candidates, num_candidates),
                                    counts.empty() ? budget : counts[row]));
  return rows;
}

std::optional<ScoringSelector::Shares> ScoringSelector::shares(const at::Tensor&,
                                                               std::int64_t) const {
  return std::nullopt;
}

}  // namespace kvloupe::selection
