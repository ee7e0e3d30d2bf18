// Between a replay and the runs that a trace records, both ways.
#include "core/analysis/cell_metrics.h"
#include "core/analysis/replay.h"
#include "core/analysis/replay_parts.h"
#include "core/analysis/session_tensors.h"
#include "core/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace kvloupe::analysis {
namespace {

using selection::BudgetScope;
using selection::MethodSpec;

// A cell of a recorded run. The trace stores no budget: it follows from the method.
ReplayCell recorded_cell(const trace::RunLayer& stored, int layer, int chunk,
                         const trace::ChunkInfo& span, const std::optional<MethodSpec>& spec) {
  ReplayCell cell = new_cell(layer, chunk, span, spec);
  if (spec && spec->has_budget()) cell.budget_tokens = spec->budget(span.begin);
  std::vector<std::int32_t> candidates(static_cast<std::size_t>(cell.num_candidates));
  std::iota(candidates.begin(), candidates.end(), 0);
  for (int row = 0; row < stored.num_rows; ++row) {
    const std::size_t index =
        static_cast<std::size_t>(chunk) * static_cast<std::size_t>(stored.num_rows) +
        static_cast<std::size_t>(row);
    ReplayRow replayed;
    if ((stored.flags[index] & trace::kCellDenseFallback) != 0) {
      cell.dense_fallback = true;
      cell.dense_reason = span.begin == 0 ? DenseReason::EmptyPast : DenseReason::FitsBudget;
      replayed.selected = candidates;
    } else if ((stored.flags[index] & trace::kCellDenseByRule) != 0) {
      cell.dense_reason = DenseReason::MethodRule;
      replayed.selected = candidates;
    } else {
      replayed.selected.assign(stored.positions.begin() + stored.offsets[index],
                               stored.positions.begin() + stored.offsets[index + 1]);
    }
    cell.rows.push_back(std::move(replayed));
  }
  return cell;
}

// The keys alive after the last chunk, and when the others died, per row.
void add_eviction_history(const trace::RunLayer& stored, std::size_t num_tokens,
                          ReplayResult& result) {
  std::vector<std::vector<std::uint16_t>> history;
  std::vector<std::vector<std::int32_t>> alive;
  for (int row = 0; row < stored.num_rows; ++row) {
    const auto begin = stored.evict_chunk.begin() + static_cast<std::ptrdiff_t>(row * num_tokens);
    history.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(num_tokens));
    alive.emplace_back();
    for (std::size_t token = 0; token < num_tokens; ++token)
      if (history.back()[token] == trace::kAlive)
        alive.back().push_back(static_cast<std::int32_t>(token));
  }
  result.evict_chunk.push_back(std::move(history));
  result.final_alive.push_back(std::move(alive));
}

// Nothing for a method that this version does not know; its sets can be shown all the same.
std::optional<MethodSpec> spec_of_run(const trace::RunInfo& run,
                                      const selection::ModelShape& shape) {
  try {
    return MethodSpec::parse(run.method).resolved(shape);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

ReplayResult recorded_run(const TraceSession& session, int run, const std::vector<int>& layers,
                          std::optional<int> chunk, bool want_mass, bool want_output_error,
                          const WorkContext& context) {
  const trace::TraceInfo& info = session.info();
  const auto found = std::find_if(info.runs.begin(), info.runs.end(),
                                  [&](const trace::RunInfo& entry) { return entry.id == run; });
  if (found == info.runs.end())
    throw input_error(fmt::format("run {} is not in this trace", run),
                      fmt::format("it has {} runs", info.runs.size()),
                      "see kvloupe info for the runs");
  const std::optional<MethodSpec> spec = spec_of_run(*found, session.shape());
  ReplayResult result;
  result.method = found->method;
  result.source_mode = info.mode;
  result.row_axis = found->row_axis;
  result.q_heads_per_row = found->q_heads_per_row;
  result.chunks = info.chunks;
  result.layers = checked_layers(info, layers);
  check_chunk(chunk, result.chunks.size());
  const selection::RowLayout layout{found->row_axis, found->q_heads_per_row};
  const bool to_the_end = !chunk || *chunk + 1 == static_cast<int>(result.chunks.size());
  for (const int layer : result.layers) {
    const trace::RunLayer stored = session.reader().read_run(run, layer);
    for (int c = chunk.value_or(0); c <= chunk.value_or(static_cast<int>(result.chunks.size()) - 1);
         ++c) {
      context.cancel.throw_if_cancelled();
      const trace::ChunkInfo& span = result.chunks[static_cast<std::size_t>(c)];
      ReplayCell replayed = recorded_cell(stored, layer, c, span, spec);
      if (want_mass || want_output_error)
        measure(session, load_cell(session, layer, c, span), spec, layout,
                {want_mass, want_output_error}, replayed);
      result.cells.push_back(std::move(replayed));
    }
    if (!stored.evict_chunk.empty() && to_the_end)
      add_eviction_history(stored, static_cast<std::size_t>(info.num_tokens), result);
  }
  return result;
}

trace::RunLayer run_layer(const ReplayResult& result, std::size_t layer_idx) {
  const std::size_t num_chunks = result.chunks.size();
  KVLOUPE_CHECK(result.cells.size() == result.layers.size() * num_chunks);
  trace::RunLayer stored;
  stored.offsets.push_back(0);
  for (std::size_t chunk = 0; chunk < num_chunks; ++chunk) {
    const ReplayCell& cell = result.cells[layer_idx * num_chunks + chunk];
    const std::uint8_t flag = cell.dense_fallback ? trace::kCellDenseFallback
                              : cell.dense_reason ? trace::kCellDenseByRule
                                                  : 0;
    stored.num_rows = static_cast<int>(cell.rows.size());
    for (const ReplayRow& row : cell.rows) {
      if (flag == 0)
        stored.positions.insert(stored.positions.end(), row.selected.begin(), row.selected.end());
      stored.offsets.push_back(static_cast<std::int64_t>(stored.positions.size()));
      stored.flags.push_back(flag);
    }
  }
  if (!result.evict_chunk.empty())
    for (const auto& row : result.evict_chunk[layer_idx])
      stored.evict_chunk.insert(stored.evict_chunk.end(), row.begin(), row.end());
  return stored;
}

}  // namespace kvloupe::analysis
