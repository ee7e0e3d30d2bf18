// Re-selection on stored Q and K.
#include "core/replay/replay.h"

#include "core/base/error.h"
#include "core/device/torch_device.h"
#include "core/replay/prepared_method.h"
#include "core/replay/replay_steps.h"
#include "core/replay/trace_basis.h"
#include "core/selection/lanes/key_copies.h"
#include "core/selection/score_memo.h"
#include "core/selection/selector.h"
#include "core/session/session_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

namespace kvloupe::replay {
namespace {

// `layers` and those whose sets they reuse, ascending.
std::vector<int> layers_to_run(const session::TraceSession& session,
                               const selection::MethodSpec& spec, const std::vector<int>& layers) {
  std::set<int> all(layers.begin(), layers.end());
  for (const int layer : layers) {
    // A source is a layer before; it may have one itself.
    std::optional<int> source = selection::source_layer(spec, session.shape(), layer);
    for (int from = layer; source; source = selection::source_layer(spec, session.shape(), from)) {
      if (!session.info().has_layer(*source))
        throw input_error(
            fmt::format("{} cannot be replayed on layer {}", spec.id(), from),
            fmt::format("it reuses the set of layer {}, which is not in this trace", *source),
            "capture that layer too, or choose other layers");
      all.insert(*source);
      from = *source;
    }
  }
  return {all.begin(), all.end()};
}

void check_probe(const session::TraceSession& session, const ReplayRequest& request,
                 const selection::MethodSpec& spec) {
  if (session.info().probe_len == 0)
    throw input_error(
        fmt::format("{} cannot be replayed", spec.id()),
        "the trace has no probe queries and no novelty of its tokens",
        fmt::format("capture again with --method {} or with --store qkv,lse,probe", spec.id()));
  if (request.chunk_size || session.chunk_size())
    throw input_error(fmt::format("{} cannot be replayed on other chunks", spec.id()),
                      "the trace holds probe queries for its own chunks only",
                      "leave out --chunk-size, or capture with it");
}

// One method's way through a trace. A cell is asked for after those that its state depends on.
class MethodReplay {
 public:
  MethodReplay(const session::TraceSession& session, const selection::MethodSpec& spec,
               const ReplayRequest& request, const WorkContext& context)
      : session_(session), request_(request), evicts_(spec.traits().evicts()) {
    const trace::TraceInfo& info = session.info();
    result_.method = spec.canonical();
    result_.spec = spec;
    result_.source_mode = info.mode;
    result_.block_size = selection::describe_run(spec, session.shape()).block_size;
    result_.chunks =
        request.chunk_size ? session::cut_anew(info, *request.chunk_size) : info.chunks;
    result_.layers = checked_layers(info, request.layers);
    chunks_ = checked_chunks(info, request.chunks, result_.chunks.size());
    if (evicts_)
      trace::require_queries(info, end_chunk(), fmt::format("{} cannot be replayed", spec.id()));
    layers_ = layers_to_run(session, spec, result_.layers);
    if (spec.traits().needs_probe) check_probe(session, request, spec);
    method_ = prepare(session, spec, layers_, request.device, context);
    result_.row_axis = method_.layout.axis;
    result_.q_heads_per_row = method_.layout.q_heads_per_row;
    result_.basis = basis_note(session, method_.basis);
    selector_ = method_.selector();
    if (evicts_) prepare_history();
    if (request.want_scores) selector_->keep_evidence();
  }

  const std::vector<int>& layers() const { return layers_; }
  int first_chunk() const { return evicts_ || chunks_.empty() ? 0 : chunks_.front(); }
  int end_chunk() const { return chunks_.empty() ? 0 : chunks_.back() + 1; }
  // What is evicted is decided by all chunks before.
  bool runs(int layer, int chunk) const {
    return (evicts_ ? chunk < end_chunk() : reports(chunk)) &&
           std::binary_search(layers_.begin(), layers_.end(), layer);
  }
  bool needs_probe() const { return method_.traits().needs_probe; }

  // The cell as it is reported; nothing for one that only the method's state needs.
  std::optional<ReplayCell> step(const selection::Cell& cell, CellTruth& truth) {
    selection::CellSelection selection = selector_->select(cell);
    std::vector<selection::RowEvidence> evidence;
    if (request_.want_scores && !selection.dense_reason) evidence = selector_->evidence(cell);
    const auto evicted = selector_->evict(cell);
    const auto reported =
        std::lower_bound(result_.layers.begin(), result_.layers.end(), cell.layer);
    if (reported == result_.layers.end() || *reported != cell.layer) return std::nullopt;
    note_evictions(static_cast<std::size_t>(reported - result_.layers.begin()), cell.chunk,
                   evicted);
    if (!reports(cell.chunk)) return std::nullopt;
    ReplayCell replayed;
    replayed.layer = cell.layer;
    replayed.chunk = cell.chunk;
    replayed.span = result_.chunks[static_cast<std::size_t>(cell.chunk)];
    measure(session_.info().model, cell, truth, method_.spec, method_.layout, selection,
            {request_.want_mass, request_.want_output_error}, replayed);
    replayed.evidence = std::move(evidence);
    if (request_.want_scores) {
      replayed.block_scores = std::move(selection.block_scores);
      replayed.block_thresholds = std::move(selection.block_thresholds);
    }
    static_cast<trace::CellRecord&>(replayed) = std::move(selection);
    replayed.source_layer = selection::source_layer(method_.spec, method_.shape, cell.layer);
    return replayed;
  }

  ReplayResult finish() {
    if (evicts_ && end_chunk() == static_cast<int>(result_.chunks.size()))
      for (const int layer : result_.layers) result_.final_alive.push_back(selector_->alive(layer));
    return std::move(result_);
  }

 private:
  bool reports(int chunk) const {
    return std::binary_search(chunks_.begin(), chunks_.end(), chunk);
  }

  void prepare_history() {
    if (result_.chunks.size() >= trace::kAlive)
      throw input_error(fmt::format("{} cannot be replayed", method_.spec.id()),
                        fmt::format("{} chunks are more than the history of evictions counts",
                                    result_.chunks.size()),
                        "use a larger --chunk-size");
    const std::vector<std::uint16_t> alive(static_cast<std::size_t>(session_.info().num_tokens),
                                           trace::kAlive);
    result_.evict_chunk.assign(
        result_.layers.size(),
        std::vector(static_cast<std::size_t>(session_.shape().num_kv_heads), alive));
  }

  void note_evictions(std::size_t layer_idx, int chunk,
                      const std::vector<std::vector<std::int32_t>>& evicted) {
    for (std::size_t row = 0; row < evicted.size(); ++row)
      for (const std::int32_t position : evicted[row])
        result_.evict_chunk[layer_idx][row][static_cast<std::size_t>(position)] =
            static_cast<std::uint16_t>(chunk);
  }

  const session::TraceSession& session_;
  const ReplayRequest& request_;
  bool evicts_;
  std::vector<int> chunks_;  // asked for, ascending
  std::vector<int> layers_;  // result_.layers and those that they need, ascending
  PreparedMethod method_;
  std::unique_ptr<selection::Selector> selector_;
  ReplayResult result_;
};

}  // namespace

std::vector<ReplayResult> replay_methods(const session::TraceSession& session,
                                         const std::vector<selection::MethodSpec>& specs,
                                         const ReplayRequest& request, const CellSink& sink,
                                         const WorkContext& context) {
  KVLOUPE_CHECK(!specs.empty());
  std::vector<std::unique_ptr<MethodReplay>> methods;
  std::set<int> layers;
  std::vector<trace::ChunkInfo> chunks = session.info().chunks;
  if (request.chunk_size) chunks = session::cut_anew(session.info(), *request.chunk_size);
  int first = static_cast<int>(chunks.size()), end = 0;
  for (const selection::MethodSpec& spec : specs) {
    methods.push_back(std::make_unique<MethodReplay>(session, spec, request, context));
    layers.insert(methods.back()->layers().begin(), methods.back()->layers().end());
    first = std::min(first, methods.back()->first_chunk());
    end = std::max(end, methods.back()->end_chunk());
  }

  session::CellLoader cells(session, device::torch_device(request.device));
  // Layer by layer, so that each is read once. Sets that pass between layers wait with the method.
  std::int64_t done = 0;
  const auto total = static_cast<std::int64_t>(layers.size()) * (end - first);
  for (const int layer : layers) {
    const auto copies = std::make_shared<selection::KeyCopies>();
    const auto memo = std::make_shared<selection::ScoreMemo>();
    for (int chunk = first; chunk < end; ++chunk) {
      std::optional<selection::Cell> cell;
      std::optional<CellTruth> truth;
      for (std::size_t i = 0; i < methods.size(); ++i) {
        MethodReplay& method = *methods[i];
        if (!method.runs(layer, chunk)) continue;
        context.cancel.throw_if_cancelled();
        if (!cell) {
          cell = cells.load(layer, chunk, chunks[static_cast<std::size_t>(chunk)]);
          cell->copies = copies;
          cell->memo = memo;
          truth.emplace(*cell, Wanted{request.want_mass, request.want_output_error});
        }
        if (method.needs_probe() && !cell->novelty.defined()) session::add_probe(session, *cell);
        if (auto replayed = method.step(*cell, *truth)) sink(i, std::move(*replayed));
      }
      context.report(++done, total, "selecting");
    }
  }
  std::vector<ReplayResult> results;
  for (const auto& method : methods) results.push_back(method->finish());
  return results;
}

ReplayResult replay(const session::TraceSession& session, const ReplayRequest& request,
                    const WorkContext& context) {
  std::vector<ReplayCell> cells;
  std::vector<ReplayResult> results = replay_methods(
      session, {request.spec}, request,
      [&](std::size_t, ReplayCell&& cell) { cells.push_back(std::move(cell)); }, context);
  results.front().cells = std::move(cells);
  return std::move(results.front());
}

std::optional<Error> why_unavailable(const session::TraceSession& session,
                                     const ReplayRequest& request, const WorkContext& context) {
  try {
    const MethodReplay attempt(session, request.spec, request, context);
    return std::nullopt;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Input) throw;
    return error;
  }
}

}  // namespace kvloupe::replay
