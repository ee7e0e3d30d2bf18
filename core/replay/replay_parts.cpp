#include "core/replay/replay_parts.h"

#include "core/base/error.h"
#include "core/selection/attend.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::replay {

using selection::MethodSpec;

std::vector<int> checked_layers(const trace::TraceInfo& info, const std::vector<int>& wanted) {
  if (info.layers.empty())
    throw input_error("there is nothing to select from", "no layer of this trace can be read",
                      "see kvloupe validate for what is wrong with it");
  if (wanted.empty()) return info.layers;
  for (const int layer : wanted)
    if (!info.has_layer(layer))
      throw input_error(fmt::format("layer {} is not in this trace", layer),
                        fmt::format("it holds {} layers from {} to {}", info.layers.size(),
                                    info.layers.front(), info.layers.back()),
                        "see kvloupe info for the layers captured");
  std::vector<int> layers = wanted;
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

void check_chunk(const std::optional<int>& chunk, std::size_t num_chunks) {
  if (chunk && (*chunk < 0 || static_cast<std::size_t>(*chunk) >= num_chunks))
    throw input_error(fmt::format("chunk {} is not in this trace", *chunk),
                      fmt::format("it has {} chunks, numbered from 0", num_chunks),
                      "choose one of them, or all");
}

void measure(const trace::ModelInfo& model, const selection::Cell& cell, CellTruth& truth,
             const std::optional<MethodSpec>& spec, const selection::RowLayout& layout,
             const selection::CellSelection& selection, const Wanted& wanted, ReplayCell& result) {
  const bool pruned = selection.lane_queries.defined();
  if (pruned && (wanted.mass || wanted.output_error))
    result.score_error = truth.score_errors(selection.lane_queries);
  if (wanted.mass) {
    result.metrics.assign(selection.rows.size(), {});
    for (std::size_t row = 0; row < selection.rows.size() && !selection.keeps_every_key(); ++row)
      result.metrics[row] =
          truth.row(layout, row, selection.num_candidates).metrics(selection.rows[row].positions);
  }
  if (!wanted.output_error) return;
  if (selection.dense_reason && !pruned) {
    result.output_error.assign(static_cast<std::size_t>(cell.num_q_heads()), 0.0);
    return;
  }
  // A recorded method that this version does not know attends as any plain one does.
  static const MethodSpec plain = MethodSpec::parse("oracle");
  static const MethodSpec plain_with_chunk = MethodSpec::parse("oracle:budget_scope=all");
  const MethodSpec& unknown = selection.num_candidates > cell.past_len ? plain_with_chunk : plain;
  result.output_error = truth.output_errors(
      selection::attend_selected(spec ? *spec : unknown, model, cell, layout, selection));
}

}  // namespace kvloupe::replay
