#include "core/replay/replay_parts.h"

#include "core/base/error.h"
#include "core/selection/attend.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::replay {

using selection::BudgetScope;
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

namespace {

void measure_lanes(CellTruth& truth, const selection::LaneSelection& lanes, bool want_errors,
                   ReplayCell& result) {
  const at::Tensor counts = lanes.counts.contiguous();
  const std::int64_t dim = counts.size(1);
  const std::vector<double> errors =
      want_errors ? truth.score_errors(lanes.queries) : std::vector<double>();
  for (std::int64_t head = 0; head < counts.size(0); ++head) {
    const auto* first = counts.const_data_ptr<std::int32_t>() + head * dim;
    LaneRow row;
    row.counts.assign(first, first + dim);
    if (want_errors) row.score_error = errors[static_cast<std::size_t>(head)];
    result.lanes.push_back(std::move(row));
  }
}

}  // namespace

void measure(const session::TraceSession& session, const selection::Cell& cell, CellTruth& truth,
             const std::optional<MethodSpec>& spec, const selection::RowLayout& layout,
             const selection::CellSelection& selection, const Wanted& wanted, ReplayCell& result) {
  if (selection.lanes)
    measure_lanes(truth, *selection.lanes, wanted.mass || wanted.output_error, result);
  // All candidates kept: recall and overlap are 1.
  const bool all_kept =
      result.dense_reason ||
      std::all_of(result.rows.begin(), result.rows.end(), [&](const ReplayRow& row) {
        return static_cast<std::int64_t>(row.selected.size()) == result.num_candidates;
      });
  if (wanted.mass && !all_kept) {
    for (std::size_t row = 0; row < result.rows.size(); ++row) {
      const MassMetrics metrics =
          truth.row(layout, row, result.num_candidates).metrics(result.rows[row].selected);
      result.rows[row].mass_recall = metrics.recall;
      result.rows[row].topk_overlap = metrics.overlap;
    }
  }
  if (!wanted.output_error) return;
  if (result.dense_reason && !selection.lanes) {
    result.output_error.assign(static_cast<std::size_t>(cell.num_q_heads()), 0.0);
    return;
  }
  // A recorded method that this version does not know attends as any plain one does.
  static const MethodSpec plain = MethodSpec::parse("oracle");
  result.output_error = truth.output_errors(selection::attend_selected(
      spec ? *spec : plain, session.info().model, cell, layout, selection));
}

ReplayCell new_cell(int layer, int chunk, const trace::ChunkInfo& span,
                    const std::optional<MethodSpec>& spec) {
  ReplayCell cell;
  cell.layer = layer;
  cell.chunk = chunk;
  cell.span = span;
  cell.num_candidates = spec && spec->scope() == BudgetScope::All ? span.end() : span.begin;
  return cell;
}

}  // namespace kvloupe::replay
