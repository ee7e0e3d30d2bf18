#include "core/replay/replay_steps.h"

#include "core/selection/attend.h"
#include "core/selection/lanes/lanes.h"

#include <ATen/ATen.h>

namespace kvloupe::replay {

using selection::MethodSpec;

void measure(const trace::ModelInfo& model, const selection::Cell& cell, CellTruth& truth,
             const std::optional<MethodSpec>& spec, const selection::RowLayout& layout,
             const selection::CellSelection& selection, const Wanted& wanted, ReplayCell& result) {
  const bool pruned = selection.lanes.has_value();
  if (pruned && (wanted.mass || wanted.output_error))
    result.score_error = truth.score_errors(selection::whole_queries(cell, *selection.lanes));
  if (wanted.mass || wanted.span) {
    result.metrics.clear();
    for (std::size_t row = 0; row < selection.rows.size(); ++row)
      result.metrics.push_back(truth.metrics(layout, selection, row));
  }
  if (!wanted.output_error) return;
  if (selection.dense_reason && !pruned) {
    result.output_error.assign(static_cast<std::size_t>(cell.num_q_heads()), 0.0);
    return;
  }
  // A recorded method that this version does not know attends as any plain one does.
  static const MethodSpec plain = MethodSpec::parse("oracle");
  static const MethodSpec plain_with_chunk = MethodSpec::parse("oracle:budget_scope=all");
  const MethodSpec& unknown =
      selection.end_of_candidates() > cell.past_len ? plain_with_chunk : plain;
  result.output_error = truth.output_errors(
      selection::attend_selected(spec ? *spec : unknown, model, cell, layout, selection));
}

}  // namespace kvloupe::replay
