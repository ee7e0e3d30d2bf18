// Re-selection on stored Q and K.
#include "core/analysis/replay.h"

#include "core/analysis/replay_parts.h"
#include "core/analysis/session_tensors.h"
#include "core/base/error.h"
#include "core/selection/selector.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvloupe::analysis {
namespace {

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
    note_evictions(layer_idx, chunk, selector_->evict(cell));
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
  void note_evictions(std::size_t layer_idx, int chunk,
                      const std::vector<std::vector<std::int32_t>>& evicted) {
    for (std::size_t row = 0; row < evicted.size(); ++row)
      for (const std::int32_t position : evicted[row])
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

}  // namespace kvloupe::analysis
