// Between a replay and the runs that a trace records, both ways.
#include "core/base/error.h"
#include "core/replay/cell_metrics.h"
#include "core/replay/replay.h"
#include "core/replay/replay_parts.h"
#include "core/session/session_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

namespace kvloupe::replay {
namespace {

using selection::BudgetScope;
using selection::MethodSpec;

// A cell of a recorded run. The trace stores no budget: it follows from the method.
ReplayCell recorded_cell(const trace::RunLayer& stored, int layer, int chunk,
                         const trace::ChunkInfo& span, const std::optional<MethodSpec>& spec,
                         bool decode_dense) {
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
      // Lane methods that drop no key are flagged so wherever they work.
      const bool works = !decode_dense || span.phase == trace::Phase::Prefill;
      if (stored.lane_counts.empty() || !stored.evict_chunk.empty() || !works)
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

std::size_t mask_bytes(const trace::RunLayer& stored, const trace::TraceInfo& info, int chunk) {
  const trace::ChunkInfo& span = info.chunks[static_cast<std::size_t>(chunk)];
  return static_cast<std::size_t>(
      trace::packed_mask_bytes(trace::block_grid(span, stored.block_size), info.model.num_q_heads));
}

// The cell as its selector would have given it, but for its lanes.
selection::CellSelection selection_of(const ReplayCell& cell) {
  selection::CellSelection selection;
  for (const ReplayRow& row : cell.rows) selection.rows.push_back({row.selected, 0, 0});
  if (cell.dense_reason) selection.dense_reason = selection::DenseReason::MethodRule;
  return selection;
}

void add_lane_counts(const trace::RunLayer& stored, const trace::ModelInfo& model,
                     ReplayCell& cell) {
  const auto heads = static_cast<std::size_t>(model.num_q_heads);
  const auto dim = static_cast<std::size_t>(model.head_dim);
  for (std::size_t head = 0; head < heads; ++head) {
    const auto first =
        stored.lane_counts.begin() +
        static_cast<std::ptrdiff_t>((static_cast<std::size_t>(cell.chunk) * heads + head) * dim);
    LaneRow row;
    row.counts.assign(first, first + static_cast<std::ptrdiff_t>(dim));
    cell.lanes.push_back(std::move(row));
  }
}

void add_masks(std::span<const std::uint8_t> packed, const trace::BlockGrid& grid, int num_q_heads,
               ReplayCell& cell) {
  if (cell.dense_reason) return;
  BlockMasks masks;
  masks.grid = grid;
  masks.num_q_heads = num_q_heads;
  masks.kept = trace::unpack_mask(grid, num_q_heads, packed);
  cell.blocks = std::move(masks);
}

// Which blocks were kept by rule is not recorded. It is found by selecting afresh; a cell that comes
// out otherwise keeps its masks as recorded, and `result` says so.
void add_block_rules(const session::TraceSession& session, const ReplayRequest& request,
                     const trace::RunInfo& run, const WorkContext& context, ReplayResult& result) {
  try {
    const ReplayResult afresh = replay(session, request, context);
    KVLOUPE_CHECK(afresh.cells.size() == result.cells.size());
    std::size_t different = 0;
    for (std::size_t i = 0; i < result.cells.size(); ++i) {
      ReplayCell& recorded = result.cells[i];
      const ReplayCell& made = afresh.cells[i];
      if (!recorded.blocks || !made.blocks) continue;
      if (recorded.blocks->kept != made.blocks->kept) {
        ++different;
        continue;
      }
      recorded.blocks = made.blocks;
      for (std::size_t row = 0; row < recorded.rows.size(); ++row)
        recorded.rows[row].forced = made.rows[row].forced;
    }
    if (different > 0)
      result.notes.push_back(fmt::format(
          "run {} ({}): {} cells have other masks when they are selected anew on this machine",
          run.id, run.method, different));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Input) throw;
    result.notes.push_back(fmt::format("which blocks run {} ({}) kept by rule is not known: {}",
                                       run.id, run.method, error.why()));
  }
}

// What pruned lanes cost is not recorded. It is found by selecting afresh, if the basis that the
// run used is at hand; else it stays unknown and `result` says so.
void add_lane_errors(const session::TraceSession& session, const trace::RunInfo& run,
                     const ReplayRequest& request, const WorkContext& context,
                     ReplayResult& result) {
  const auto unknown = [&](const std::string& why) {
    result.notes.push_back(
        fmt::format("the errors of run {} ({}) are not known: {}", run.id, run.method, why));
  };
  try {
    const ReplayResult afresh = replay(session, request, context);
    if (!afresh.basis || afresh.basis->hash != run.basis_hash) {
      unknown("the basis that it used is not the one at hand");
      return;
    }
    KVLOUPE_CHECK(afresh.cells.size() == result.cells.size());
    for (std::size_t i = 0; i < result.cells.size(); ++i) {
      result.cells[i].output_error = afresh.cells[i].output_error;
      for (std::size_t head = 0; head < result.cells[i].lanes.size(); ++head)
        result.cells[i].lanes[head].score_error = afresh.cells[i].lanes[head].score_error;
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Input) throw;
    unknown(error.why());
  }
}

std::optional<BasisNote> recorded_basis(const trace::RunInfo& run) {
  if (run.basis_source.empty()) return std::nullopt;
  BasisNote note;
  note.source = run.basis_source;
  note.hash = run.basis_hash;
  note.leakage = run.basis_leakage;
  return note;
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

ReplayResult recorded_run(const session::TraceSession& session, int run,
                          const std::vector<int>& layers, std::optional<int> chunk, bool want_mass,
                          bool want_output_error, const WorkContext& context) {
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
  result.spec = spec;
  result.source_mode = info.mode;
  result.row_axis = found->row_axis;
  result.q_heads_per_row = found->q_heads_per_row;
  result.block_size = found->block_size;
  result.chunks = info.chunks;
  result.layers = checked_layers(info, layers);
  check_chunk(chunk, result.chunks.size());
  result.basis = recorded_basis(*found);
  const selection::RowLayout layout{found->row_axis, found->q_heads_per_row};
  bool has_lanes = false;
  const bool to_the_end = !chunk || *chunk + 1 == static_cast<int>(result.chunks.size());
  for (const int layer : result.layers) {
    const trace::RunLayer stored = session.reader().read_run(run, layer);
    if (stored.block_size > 0) result.block_size = stored.block_size;
    std::size_t mask_end = 0;
    for (int c = 0; c < chunk.value_or(0) && stored.block_size > 0; ++c)
      mask_end += mask_bytes(stored, info, c);
    for (int c = chunk.value_or(0); c <= chunk.value_or(static_cast<int>(result.chunks.size()) - 1);
         ++c) {
      context.cancel.throw_if_cancelled();
      const trace::ChunkInfo& span = result.chunks[static_cast<std::size_t>(c)];
      ReplayCell replayed = recorded_cell(stored, layer, c, span, spec, found->decode_dense);
      if (spec) replayed.source_layer = selection::source_layer(*spec, session.shape(), layer);
      const bool lanes = !stored.lane_counts.empty();
      const Wanted wanted{want_mass, want_output_error && !lanes};
      if (lanes) add_lane_counts(stored, info.model, replayed);
      has_lanes |= lanes;
      if (stored.block_size > 0) {
        const std::size_t begin = std::exchange(mask_end, mask_end + mask_bytes(stored, info, c));
        add_masks(std::span(stored.block_mask).subspan(begin, mask_end - begin),
                  trace::block_grid(span, stored.block_size), info.model.num_q_heads, replayed);
      }
      if (wanted.mass || wanted.output_error) {
        const selection::Cell cell = session::load_cell(session, layer, c, span);
        CellTruth truth(cell, wanted);
        measure(session, cell, truth, spec, layout, selection_of(replayed), wanted, replayed);
      }
      result.cells.push_back(std::move(replayed));
    }
    if (!stored.evict_chunk.empty() && to_the_end)
      add_eviction_history(stored, static_cast<std::size_t>(info.num_tokens), result);
  }
  if (spec && (want_mass || want_output_error)) {
    ReplayRequest request;
    request.spec = *spec;
    request.layers = result.layers;
    request.chunk = chunk;
    request.want_mass = want_mass && has_lanes;
    request.want_output_error = want_output_error && has_lanes;
    if (has_lanes) add_lane_errors(session, *found, request, context, result);
    if (result.block_size > 0) add_block_rules(session, request, *found, context, result);
  }
  return result;
}

namespace {

std::vector<std::uint8_t> packed_masks(const ReplayResult& result, const ReplayCell& cell) {
  const trace::BlockGrid grid = trace::block_grid(cell.span, result.block_size);
  if (cell.blocks) return trace::pack_mask(grid, cell.blocks->kept);
  const int num_q_heads = static_cast<int>(cell.rows.size()) * result.q_heads_per_row;
  return trace::packed_causal_mask(grid, num_q_heads);
}

}  // namespace

trace::RunLayer run_layer(const ReplayResult& result, std::size_t layer_idx) {
  const std::size_t num_chunks = result.chunks.size();
  KVLOUPE_CHECK(result.cells.size() == result.layers.size() * num_chunks);
  trace::RunLayer stored;
  stored.block_size = result.block_size;
  stored.offsets.push_back(0);
  for (std::size_t chunk = 0; chunk < num_chunks; ++chunk) {
    const ReplayCell& cell = result.cells[layer_idx * num_chunks + chunk];
    const bool prunes_lanes_alone = !cell.lanes.empty() && result.evict_chunk.empty();
    const std::uint8_t flag = cell.dense_fallback                       ? trace::kCellDenseFallback
                              : cell.dense_reason || prunes_lanes_alone ? trace::kCellDenseByRule
                                                                        : 0;
    stored.num_rows = static_cast<int>(cell.rows.size());
    if (result.block_size > 0) {
      const auto masks = packed_masks(result, cell);
      stored.block_mask.insert(stored.block_mask.end(), masks.begin(), masks.end());
    }
    for (const LaneRow& lane : cell.lanes)
      stored.lane_counts.insert(stored.lane_counts.end(), lane.counts.begin(), lane.counts.end());
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

trace::RunInfo run_info(const ReplayResult& result, const selection::MethodSpec& spec,
                        const selection::ModelShape& shape) {
  trace::RunInfo run = selection::describe_run(spec, shape);
  if (result.basis) {
    run.basis_source = result.basis->source;
    run.basis_hash = result.basis->hash;
    run.basis_leakage = result.basis->leakage;
  }
  return run;
}

}  // namespace kvloupe::replay
