// Re-selection on stored Q and K, and the same form for what a trace recorded.
#include "core/analysis/replay.h"

#include "core/analysis/cell_metrics.h"
#include "core/analysis/session_tensors.h"
#include "core/base/error.h"
#include "core/selection/reassigned_keys.h"
#include "core/selection/selector.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace kvloupe::analysis {
namespace {

using selection::BudgetScope;
using selection::MethodSpec;

// The prefill part cut anew from position 0; decoded tokens stay chunks of one.
std::vector<trace::ChunkInfo> rechunked(const std::vector<trace::ChunkInfo>& chunks, int size) {
  if (size < 1)
    throw usage_error(fmt::format("chunk size {} is not valid", size), "it must be at least 1",
                      "give a number of tokens");
  std::int32_t prefill_end = 0;
  for (const trace::ChunkInfo& chunk : chunks)
    if (chunk.phase == trace::Phase::Prefill) prefill_end = std::max(prefill_end, chunk.end());
  std::vector<trace::ChunkInfo> result;
  for (std::int32_t begin = 0; begin < prefill_end;) {
    const std::int32_t length = std::min<std::int32_t>(size, prefill_end - begin);
    result.push_back({begin, length, trace::Phase::Prefill});
    begin += length;
  }
  for (const trace::ChunkInfo& chunk : chunks)
    if (chunk.phase == trace::Phase::Decode) result.push_back(chunk);
  return result;
}

std::vector<int> checked_layers(const trace::TraceInfo& info, const std::vector<int>& wanted) {
  if (wanted.empty()) return info.layers;
  for (const int layer : wanted)
    if (!info.has_layer(layer))
      throw input_error(fmt::format("layer {} is not in this trace", layer),
                        info.layers.empty()
                            ? "it holds no layer"
                            : fmt::format("it holds {} layers from {} to {}", info.layers.size(),
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

DenseReason translated(selection::DenseReason reason) {
  switch (reason) {
    case selection::DenseReason::EmptyPast:
      return DenseReason::EmptyPast;
    case selection::DenseReason::FitsBudget:
      return DenseReason::FitsBudget;
    case selection::DenseReason::MethodRule:
      return DenseReason::MethodRule;
  }
  fail_check("a known dense reason", __FILE__, __LINE__);
}

struct Wanted {
  bool mass = true;
  bool output_error = false;
};

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

// One method's way through a trace. A cell is asked for after those that its state depends on.
class Replayer {
 public:
  Replayer(const TraceSession& session, const ReplayRequest& request, ReplayResult& result)
      : session_(session),
        request_(request),
        result_(result),
        selector_(selection::make_selector(request.spec, session.shape())),
        layout_(selection::row_layout(request.spec, session.shape())),
        evicts_(request.spec.state_action() == trace::StateAction::Eviction) {
    if (!evicts_) return;
    if (result_.chunks.size() >= trace::kAlive)
      throw input_error(fmt::format("{} cannot be replayed", request.spec.id()),
                        fmt::format("{} chunks are more than the history of evictions counts",
                                    result_.chunks.size()),
                        "use a larger --chunk-size");
    result_.evict_chunk.assign(
        result_.layers.size(),
        std::vector(static_cast<std::size_t>(session.shape().num_kv_heads),
                    std::vector<std::uint16_t>(static_cast<std::size_t>(session.info().num_tokens),
                                               trace::kAlive)));
  }

  // Chunks that must be run, of which `measured` ones are reported.
  std::pair<int, int> chunk_range() const {
    const int last = request_.chunk.value_or(static_cast<int>(result_.chunks.size()) - 1);
    return {request_.chunk && !evicts_ ? *request_.chunk : 0, last + 1};
  }

  void step(std::size_t layer_idx, int chunk) {
    const int layer = result_.layers[layer_idx];
    const trace::ChunkInfo& span = result_.chunks[static_cast<std::size_t>(chunk)];
    const selection::Cell cell = load_cell(session_, layer, chunk, span);
    selection::CellSelection selection = selector_->select(cell);
    note_evictions(layer_idx, chunk, selection);
    if (request_.chunk && *request_.chunk != chunk) return;
    ReplayCell replayed = new_cell(layer, chunk, span, request_.spec);
    replayed.dense_fallback = selection.dense_fallback;
    replayed.budget_tokens = selection.budget_tokens;
    if (selection.dense_reason) replayed.dense_reason = translated(*selection.dense_reason);
    for (selection::RowSelection& row : selection.rows) {
      ReplayRow replayed_row;
      replayed_row.selected = std::move(row.positions);
      replayed_row.forced = row.forced;
      replayed_row.ties_at_cut = row.ties_at_cut;
      replayed.rows.push_back(std::move(replayed_row));
    }
    measure(session_, cell, request_.spec, layout_,
            {request_.want_mass, request_.want_output_error}, replayed);
    const std::size_t per_layer = request_.chunk ? 1 : result_.chunks.size();
    const std::size_t index =
        layer_idx * per_layer + (request_.chunk ? 0 : static_cast<std::size_t>(chunk));
    result_.cells[index] = std::move(replayed);
  }

  void finish() {
    const bool to_the_end =
        !request_.chunk || *request_.chunk + 1 == static_cast<int>(result_.chunks.size());
    if (!evicts_ || !to_the_end) return;
    for (const int layer : result_.layers) result_.final_alive.push_back(selector_->alive(layer));
  }

 private:
  void note_evictions(std::size_t layer_idx, int chunk, const selection::CellSelection& selection) {
    for (std::size_t row = 0; row < selection.evicted.size(); ++row)
      for (const std::int32_t position : selection.evicted[row])
        result_.evict_chunk[layer_idx][row][static_cast<std::size_t>(position)] =
            static_cast<std::uint16_t>(chunk);
  }

  const TraceSession& session_;
  const ReplayRequest& request_;
  ReplayResult& result_;
  std::unique_ptr<selection::Selector> selector_;
  selection::RowLayout layout_;
  bool evicts_;
};

}  // namespace

const char* name_of(DenseReason reason) {
  switch (reason) {
    case DenseReason::EmptyPast:
      return "empty_past";
    case DenseReason::FitsBudget:
      return "fits_budget";
    case DenseReason::MethodRule:
      return "method_rule";
  }
  return "";
}

const ReplayCell* ReplayResult::find(int layer, int chunk) const {
  for (const ReplayCell& cell : cells)
    if (cell.layer == layer && cell.chunk == chunk) return &cell;
  return nullptr;
}

ReplayResult replay(const TraceSession& session, const ReplayRequest& request,
                    const WorkContext& context) {
  const trace::TraceInfo& info = session.info();
  const selection::RowLayout layout = selection::row_layout(request.spec, session.shape());
  ReplayResult result;
  result.method = request.spec.canonical();
  result.source_mode = info.mode;
  result.row_axis = layout.axis;
  result.q_heads_per_row = layout.q_heads_per_row;
  result.chunks = request.chunk_size ? rechunked(info.chunks, *request.chunk_size) : info.chunks;
  result.layers = checked_layers(info, request.layers);
  check_chunk(request.chunk, result.chunks.size());
  result.cells.resize(result.layers.size() * (request.chunk ? 1 : result.chunks.size()));

  Replayer replayer(session, request, result);
  const auto [first, last] = replayer.chunk_range();
  const auto num_layers = result.layers.size();
  const auto num_chunks = static_cast<std::size_t>(std::max(0, last - first));
  // Layer by layer reads each layer once; methods that hand sets from layer to layer go chunk by
  // chunk.
  const bool chunks_outside = request.spec.info().crosses_layers;
  for (std::size_t item = 0; item < num_layers * num_chunks; ++item) {
    context.cancel.throw_if_cancelled();
    const std::size_t layer_idx = chunks_outside ? item % num_layers : item / num_chunks;
    const std::size_t chunk = chunks_outside ? item / num_layers : item % num_chunks;
    replayer.step(layer_idx, first + static_cast<int>(chunk));
    context.report(static_cast<std::int64_t>(item) + 1,
                   static_cast<std::int64_t>(num_layers * num_chunks), "selecting");
  }
  replayer.finish();
  return result;
}

namespace {

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

}  // namespace kvloupe::analysis
