#include "core/analysis/selected_vs_true.h"

#include "core/base/error.h"
#include "core/replay/cell_metrics.h"
#include "core/replay/span_kept.h"
#include "core/selection/ranking.h"
#include "core/session/session_tensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <span>

namespace kvloupe::analysis {
namespace {

selection::Cell loaded_cell(const session::TraceSession& session, const replay::ReplayCell& cell) {
  return session::load_cell(session, cell.layer, cell.chunk, cell.span);
}

selection::RowLayout layout_of(const selection::Cell& cell, int q_heads_per_row) {
  const bool per_kv_head = q_heads_per_row == cell.gqa_group_size();
  return {per_kv_head ? trace::RowAxis::KvHead : trace::RowAxis::Subgroup, q_heads_per_row};
}

double sum_of(const float* begin, const float* end) {
  double sum = 0;
  for (; begin != end; ++begin) sum += static_cast<double>(*begin);
  return sum;
}

KeyVerdict verdict_of(bool selected, bool is_true) {
  if (selected) return is_true ? KeyVerdict::Hit : KeyVerdict::Waste;
  return is_true ? KeyVerdict::Miss : KeyVerdict::Neither;
}

}  // namespace

SelectedVsTrue selected_vs_true(const session::TraceSession& session,
                                const replay::ReplayCell& cell, int row, int q_heads_per_row) {
  KVLOUPE_CHECK(row >= 0 && static_cast<std::size_t>(row) < cell.rows.size());
  const trace::SelectedRow& kept = cell.rows[static_cast<std::size_t>(row)];
  SelectedVsTrue result;
  result.layer = cell.layer;
  result.chunk = cell.chunk;
  result.row = row;
  result.first_candidate = cell.first_candidate;
  result.num_candidates = cell.num_candidates;
  const selection::Cell loaded = loaded_cell(session, cell);
  const selection::RowLayout layout = layout_of(loaded, q_heads_per_row);
  const at::Tensor mass = replay::mass_of_row(loaded, layout, row);
  const float* values = mass.const_data_ptr<float>();
  result.mass.assign(values, values + mass.size(0));

  const float* first = values + cell.first_candidate;
  std::vector<std::uint8_t> selected(static_cast<std::size_t>(cell.end_of_candidates()), 0);
  for (const std::int32_t position : kept.positions)
    selected[static_cast<std::size_t>(position)] = 1;
  const auto order = selection::ranked(
      std::span(first, static_cast<std::size_t>(cell.num_candidates)), cell.num_candidates);
  result.verdict.resize(static_cast<std::size_t>(cell.end_of_candidates()), KeyVerdict::Neither);
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const auto position = static_cast<std::int32_t>(cell.first_candidate) + order[rank];
    const bool is_selected = selected[static_cast<std::size_t>(position)] != 0;
    const KeyVerdict verdict = verdict_of(is_selected, rank < kept.positions.size());
    result.verdict[static_cast<std::size_t>(position)] = verdict;
    result.hits += verdict == KeyVerdict::Hit;
    result.misses += verdict == KeyVerdict::Miss;
    result.wastes += verdict == KeyVerdict::Waste;
    result.by_true_rank.push_back({position, static_cast<double>(values[position]),
                                   static_cast<std::int32_t>(rank), verdict});
  }
  const replay::RowMetrics metrics =
      cell.reads_masks
          ? replay::CellTruth(loaded, {}).metrics(layout, cell, static_cast<std::size_t>(row))
          : replay::RowTruth(values, cell.first_candidate, cell.num_candidates, cell.span.end(),
                             cell.span.phase)
                .metrics(kept.positions);
  result.mass_recall = cell.dense_reason ? 1 : metrics.mass_recall;
  result.missed_mass = 1 - result.mass_recall;
  result.topk_overlap = cell.dense_reason ? 1 : metrics.topk_overlap;
  return result;
}

std::vector<SpanFate> span_fate(const session::TraceSession& session,
                                const replay::ReplayResult& result, const trace::KeySet& keys,
                                const WorkContext& context) {
  std::vector<SpanFate> fates;
  for (const replay::ReplayCell& cell : result.cells) {
    context.cancel.throw_if_cancelled();
    const auto ranges = keys.ranges_in(cell.first_candidate, cell.end_of_candidates());
    if (ranges.empty() || !session.info().has_queries(cell.chunk)) continue;
    const selection::Cell loaded = loaded_cell(session, cell);
    const at::Tensor mass = replay::row_mass(loaded, layout_of(loaded, result.q_heads_per_row));
    for (std::size_t row = 0; row < cell.rows.size(); ++row) {
      const float* values =
          mass.const_data_ptr<float>() + static_cast<std::int64_t>(row) * mass.stride(0);
      const replay::SpanCount count = replay::count_in_span(cell, row, keys);
      SpanFate fate;
      fate.layer = cell.layer;
      fate.chunk = cell.chunk;
      fate.row = static_cast<int>(row);
      fate.total = static_cast<std::int32_t>(count.candidates);
      fate.kept = static_cast<std::int32_t>(count.kept);
      const float* first = values + cell.first_candidate;
      const float* last = values + cell.end_of_candidates();
      const double whole = sum_of(first, last);
      // Their first key of largest mass; those before it in the ranking count its rank.
      const float* best = values + ranges.front().begin;
      for (const trace::TokenRange& range : ranges) {
        if (whole > 0) fate.span_mass += sum_of(values + range.begin, values + range.end) / whole;
        const float* most = std::max_element(values + range.begin, values + range.end);
        if (*most > *best) best = most;
      }
      fate.best_true_rank = static_cast<std::int32_t>(
          std::count_if(first, best, [&](float value) { return value >= *best; }) +
          std::count_if(best, last, [&](float value) { return value > *best; }));
      fates.push_back(fate);
    }
  }
  return fates;
}

}  // namespace kvloupe::analysis
