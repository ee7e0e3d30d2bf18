#include "core/analysis/replay_parts.h"

#include "core/analysis/cell_metrics.h"
#include "core/base/error.h"
#include "core/selection/reassigned_keys.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

namespace kvloupe::analysis {

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
  return wanted;
}

void check_chunk(const std::optional<int>& chunk, std::size_t num_chunks) {
  if (chunk && (*chunk < 0 || static_cast<std::size_t>(*chunk) >= num_chunks))
    throw input_error(fmt::format("chunk {} is not in this trace", *chunk),
                      fmt::format("it has {} chunks, numbered from 0", num_chunks),
                      "choose one of them, or all");
}

// Fills the metrics of a cell whose rows hold their `selected`.
void measure(const TraceSession& session, const selection::Cell& cell,
             const std::optional<MethodSpec>& spec, const selection::RowLayout& layout,
             const Wanted& wanted, ReplayCell& result) {
  if (result.dense_reason) {
    if (wanted.output_error)
      result.output_error.assign(static_cast<std::size_t>(cell.num_q_heads()), 0.0);
    return;
  }
  if (wanted.mass) {
    const at::Tensor mass = row_mass(cell, layout);
    for (std::size_t row = 0; row < result.rows.size(); ++row) {
      const float* values =
          mass.const_data_ptr<float>() + static_cast<std::int64_t>(row) * mass.stride(0);
      const MassMetrics metrics =
          mass_metrics(values, result.num_candidates, result.rows[row].selected);
      result.rows[row].mass_recall = metrics.recall;
      result.rows[row].topk_overlap = metrics.overlap;
    }
  }
  if (wanted.output_error) {
    std::vector<std::vector<std::int32_t>> selected;
    for (const ReplayRow& row : result.rows) selected.push_back(row.selected);
    const at::Tensor keys = spec ? selection::attended_keys(*spec, session.info().model, cell.layer,
                                                            cell.k, cell.past_len, selected)
                                 : cell.k;
    const BudgetScope scope = spec ? spec->scope() : BudgetScope::Past;
    result.output_error = output_errors(cell, keys, selected, layout, scope);
  }
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

}  // namespace kvloupe::analysis
