#include "core/analysis/compare.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace kvloupe::analysis {
namespace {

// A mean over what was added; empty when nothing was.
class Mean {
 public:
  void add(double value) {
    sum_ += value;
    ++count_;
  }
  std::optional<double> value() const {
    if (count_ == 0) return std::nullopt;
    return sum_ / static_cast<double>(count_);
  }

 private:
  double sum_ = 0;
  std::int64_t count_ = 0;
};

struct Averages {
  std::int64_t cells = 0;
  std::int64_t fallback_cells = 0;
  Mean requested_budget, effective_budget, mass_recall, topk_overlap, output_error, density;
};

double mean_error(const ReplayCell& cell, std::size_t row, int q_heads_per_row) {
  Mean mean;
  const std::size_t first = row * static_cast<std::size_t>(q_heads_per_row);
  for (std::size_t head = first; head < first + static_cast<std::size_t>(q_heads_per_row); ++head)
    mean.add(cell.output_error[head]);
  return mean.value().value_or(0);
}

void add_row(const ReplayCell& cell, std::size_t row, int q_heads_per_row, Averages& averages) {
  if (cell.dense_fallback) ++averages.fallback_cells;
  if (cell.dense_reason) return;
  ++averages.cells;
  const ReplayRow& kept = cell.rows[row];
  const auto past_end =
      std::lower_bound(kept.selected.begin(), kept.selected.end(), cell.span.begin);
  if (cell.budget_tokens) averages.requested_budget.add(static_cast<double>(*cell.budget_tokens));
  averages.effective_budget.add(static_cast<double>(kept.selected.size()));
  averages.mass_recall.add(kept.mass_recall);
  averages.topk_overlap.add(kept.topk_overlap);
  averages.density.add(static_cast<double>(past_end - kept.selected.begin()) /
                       static_cast<double>(cell.span.begin));
  if (!cell.output_error.empty()) averages.output_error.add(mean_error(cell, row, q_heads_per_row));
}

constexpr std::array kScopes = {"all", "layer", "kv_head", "chunk"};

// Averages of one phase by (place in kScopes, index), in the order of the rows.
using Table = std::map<std::pair<int, int>, Averages>;

Table averages_of_phase(const ReplayResult& result, trace::Phase phase, int gqa_group_size) {
  Table table;
  for (const ReplayCell& cell : result.cells) {
    if (cell.span.phase != phase) continue;
    for (std::size_t row = 0; row < cell.rows.size(); ++row) {
      const int kv_head = static_cast<int>(row) * result.q_heads_per_row / gqa_group_size;
      const std::array indices = {0, cell.layer, kv_head, cell.chunk};
      for (int scope = 0; scope < static_cast<int>(kScopes.size()); ++scope)
        add_row(cell, row, result.q_heads_per_row, table[{scope, indices[scope]}]);
    }
  }
  return table;
}

}  // namespace

std::vector<CompareRow> summarise(const ReplayResult& result, const TraceSession& session) {
  std::vector<CompareRow> rows;
  for (const auto phase : {trace::Phase::Prefill, trace::Phase::Decode}) {
    Table table = averages_of_phase(result, phase, session.info().model.gqa_group_size());
    // The row over all stands even where no cell was averaged.
    if (phase == trace::Phase::Prefill) table[{0, 0}];
    for (const auto& [place, averages] : table) {
      CompareRow row;
      row.method = result.method;
      row.phase = phase == trace::Phase::Prefill ? "prefill" : "decode";
      row.scope = kScopes[place.first];
      row.index = place.second;
      row.cells = averages.cells;
      row.fallback_cells = averages.fallback_cells;
      row.requested_budget = averages.requested_budget.value();
      row.effective_budget = averages.effective_budget.value();
      row.mass_recall = averages.mass_recall.value();
      row.topk_overlap = averages.topk_overlap.value();
      row.output_error = averages.output_error.value();
      row.density = averages.density.value();
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace kvloupe::analysis
