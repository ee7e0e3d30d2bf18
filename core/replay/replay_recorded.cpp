// Between a replay and the runs that a trace records, both ways. Free of Torch.
#include "core/base/error.h"
#include "core/replay/method_choice.h"
#include "core/replay/replay.h"
#include "core/replay/request_checks.h"
#include "core/trace/trace_writer.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace kvloupe::replay {
namespace {

using selection::MethodSpec;

// The cells asked for, as the trace records them. It does not store what follows from the method.
void add_cells(const session::TraceSession& session, const std::optional<MethodSpec>& spec,
               int layer, std::optional<int> chunk, std::vector<trace::CellRecord> cells,
               ReplayResult& result) {
  std::optional<int> source;
  if (spec) source = selection::source_layer(*spec, session.shape(), layer);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    ReplayCell cell;
    static_cast<trace::CellRecord&>(cell) = std::move(cells[i]);
    cell.layer = layer;
    cell.chunk = chunk.value_or(static_cast<int>(i));
    cell.span = result.chunks[static_cast<std::size_t>(cell.chunk)];
    cell.source_layer = source;
    cell.reads_masks = spec && spec->traits().native_masks && !cell.dense_reason;
    if (spec && spec->has_budget())
      cell.budget_tokens = spec->budget(cell.span.begin - cell.first_candidate);
    result.cells.push_back(std::move(cell));
  }
}

// The keys alive after the last chunk, and when the others died, per row.
void add_eviction_history(trace::LayerRecord&& record, ReplayResult& result) {
  auto& alive = result.final_alive.emplace_back(record.evict_chunk.size());
  for (std::size_t row = 0; row < alive.size(); ++row)
    for (std::size_t token = 0; token < record.evict_chunk[row].size(); ++token)
      if (record.evict_chunk[row][token] == trace::kAlive)
        alive[row].push_back(static_cast<std::int32_t>(token));
  result.evict_chunk.push_back(std::move(record.evict_chunk));
}

std::optional<BasisNote> recorded_basis(const trace::RunInfo& run) {
  if (run.basis_source.empty()) return std::nullopt;
  BasisNote note;
  note.source = run.basis_source;
  note.hash = run.basis_hash;
  note.leakage = run.basis_leakage;
  return note;
}

}  // namespace

const ReplayCell* ReplayResult::find(int layer, int chunk) const {
  for (const ReplayCell& cell : cells)
    if (cell.layer == layer && cell.chunk == chunk) return &cell;
  return nullptr;
}

ReplayResult read_run(const session::TraceSession& session, int run, const std::vector<int>& layers,
                      std::optional<int> chunk, const WorkContext& context) {
  const trace::TraceInfo& info = session.info();
  if (session.chunk_size())
    throw input_error("a recorded run cannot be cut into other chunks",
                      "it says what was kept in the trace's own", "leave out --chunk-size");
  const trace::RunInfo& recorded = recorded_run_of(info, run);
  const std::optional<MethodSpec> spec = choice_of_run(recorded, session.shape()).spec;
  ReplayResult result;
  result.method = recorded.method;
  result.spec = spec;
  result.run = run;
  result.mode = recorded.mode;
  result.source_mode = info.mode;
  result.row_axis = recorded.row_axis;
  result.q_heads_per_row = recorded.q_heads_per_row;
  result.block_size = recorded.block_size;
  result.chunks = info.chunks;
  result.layers = checked_layers_of_run(session, run, layers);
  check_chunk(chunk, result.chunks.size());
  result.basis = recorded_basis(recorded);
  const bool to_the_end = !chunk || *chunk + 1 == static_cast<int>(result.chunks.size());
  for (const int layer : result.layers) {
    context.cancel.throw_if_cancelled();
    trace::LayerRecord record = session.reader().read_run(run, layer, chunk);
    for (const trace::CellRecord& cell : record.cells)
      if (cell.blocks) result.block_size = static_cast<int>(cell.blocks->grid.block_size);
    add_cells(session, spec, layer, chunk, std::move(record.cells), result);
    if (!record.evict_chunk.empty() && to_the_end) add_eviction_history(std::move(record), result);
  }
  return result;
}

std::vector<trace::LayerRecord> layer_records(const ReplayResult& result) {
  const std::size_t num_chunks = result.chunks.size();
  KVLOUPE_CHECK(result.cells.size() == result.layers.size() * num_chunks);
  std::vector<trace::LayerRecord> records(result.layers.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto first = result.cells.begin() + static_cast<std::ptrdiff_t>(i * num_chunks);
    records[i].cells.assign(first, first + static_cast<std::ptrdiff_t>(num_chunks));
    if (!result.evict_chunk.empty()) records[i].evict_chunk = result.evict_chunk[i];
  }
  return records;
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

int save_run(const session::TraceSession& session, const MethodSpec& spec,
             const ReplayResult& result) {
  return trace::append_sidecar_run(session.info().path, run_info(result, spec, session.shape()),
                                   result.layers, layer_records(result));
}

}  // namespace kvloupe::replay
