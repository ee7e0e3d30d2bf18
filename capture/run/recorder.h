// What happens at the decoder's attention hook during a capture: attention is computed, the methods
// select, and all that the trace stores goes to the host and to the writer's lane.
#pragma once

#include "capture/model/decoder.h"
#include "capture/run/capture.h"
#include "capture/run/host_copies.h"
#include "capture/run/recorded_method.h"
#include "capture/run/writer_lane.h"
#include "core/selection/lanes/key_copies.h"
#include "core/selection/selector.h"
#include "core/trace/trace_reader.h"
#include "core/trace/trace_types.h"
#include "core/trace/trace_writer.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::capture {

struct RecorderOptions {
  trace::DType dtype = trace::DType::F16;
  std::vector<int> layers;  // recorded, ascending
  trace::StoredParts store = {trace::Part::Qkv, trace::Part::Lse};
  int probe_len = 0;             // tokens of the probe; 0: none
  std::int32_t prefill_len = 0;  // tokens that are prefilled
  // In closed loop the model attends to what this method selects, in all layers; it is run 0 of the
  // trace.
  std::optional<RecordedMethod> closed_loop;
  // Selected beside the model on the recorded layers (and on those whose sets they reuse); the runs
  // that follow.
  std::vector<RecordedMethod> open_loop;
};

// Keys that rows of cells (layer, chunk) kept, as `compare` counts them: of cells that no rule made dense.
struct KeptKeys {
  std::int64_t keys = 0, rows = 0;
};

// The runs of a capture of `prompt` with these options, as a trace declares them.
std::vector<trace::RunInfo> runs_of(const RecorderOptions& options, const trace::ModelInfo& model,
                                    const std::vector<std::int32_t>& prompt);

class Recorder final : public AttentionHook {
 public:
  // `writer` must outlive the recorder and is used by the recorder's thread alone until finish(). Null: the
  // closed loop runs and nothing is stored. Throws Error{Input} when a method cannot serve the model.
  Recorder(trace::TraceWriter* writer, const trace::ModelInfo& model, RecorderOptions options);
  ~Recorder() override;

  // A chunk that the trace has already, of a model that does not run again, one call a recorded layer:
  // methods that evict see it as they did (`probe_q` in prefill, with a probe). Then begin_chunk()
  // goes on after `num_chunks` of them.
  void recall(int chunk_idx, const trace::ChunkInfo& chunk, const AttentionCall& call,
              const at::Tensor& probe_q);
  bool evicts() const;
  void recalled(int num_chunks) { chunk_idx_ = num_chunks - 1; }
  // The novelty of tokens that the trace has already.
  void restore_novelty(std::vector<float> novelty) { novelty_ = std::move(novelty); }

  // Around each forward(): which chunk the calls belong to, and its tokens. What else the options ask
  // for follows the chunk's forward(); then, with a probe, after prefill chunks, begin_probe() and
  // the probe's forward(). With `recorded`, which has the chunk, nothing is written: what is computed
  // must be what stands there (else Error{Input}).
  void begin_chunk(const trace::ChunkInfo& chunk, const trace::TraceReader* recorded = nullptr);
  at::Tensor attend(const AttentionCall& call) override;
  void add_novelty(std::vector<float> novelty);  // -log P of the chunk's tokens
  void add_top(trace::TopTokens top);
  void add_drift(trace::DriftChunk drift);
  void begin_probe();
  void end_chunk(std::vector<std::int32_t> ids, std::vector<std::string> texts);
  // Waits until all chunks are written. Throws what the writer threw.
  void finish();

  // (chunk, layer) cells whose stored q, k or v hold a NaN or Inf.
  std::int64_t marked_cells() const { return marked_cells_; }
  RecorderTimes times() const;
  // What the closed loop kept, by chunk: of those that were not run here nothing.
  const std::vector<KeptKeys>& kept() const { return kept_; }

 private:
  struct Run {
    int id = 0;
    std::unique_ptr<selection::Selector> selector;
    bool needs_probe = false;
    // Open loop: layers that are not recorded but whose sets recorded ones reuse.
    std::set<int> unrecorded_sources;
  };
  // A cell whose evictions depend on the probe.
  struct Waiting {
    Run* run = nullptr;
    selection::Cell cell;
    selection::CellSelection selection;
  };
  struct Attended {
    at::Tensor output, lse, key_mass;
  };
  // What the trace stores of a layer's chunk, on the host; undefined where it does not.
  struct StoredRows {
    at::Tensor q, k, v, lse, key_mass;
  };

  bool is_recorded(int layer) const;
  Attended attend_dense(const selection::Cell& cell, bool recorded);
  Attended attend_closed_loop(const selection::Cell& cell, bool recorded);
  at::Tensor attend_probe(const AttentionCall& call);
  at::Tensor probe_attention(const AttentionCall& call);
  void store_probe(const AttentionCall& call);
  Run make_run(const RecordedMethod& method, int id, bool open_loop) const;
  selection::Cell cell_of(const AttentionCall& call);
  // Its rows may be pending.
  selection::CellSelection select(Run& run, const selection::Cell& cell);
  void count_kept(const selection::CellSelection& selection);
  // Evicts and stores: at once, or when the probe has been seen.
  void settle(Run& run, const selection::Cell& cell, selection::CellSelection selection);
  void evict_and_store(Run& run, const selection::Cell& cell, selection::CellSelection selection);
  void store_selection(const Run& run, const selection::Cell& cell,
                       selection::CellSelection selection,
                       std::vector<std::vector<std::int32_t>> evicted);
  // On the host once copies_ say so, contiguous, in the stored type: the trace's own.
  at::Tensor stored_copy(const at::Tensor& tensor, const at::Tensor& half);
  void store_layer(const AttentionCall& call, const Attended& attended);
  void check_and_submit(int layer, StoredRows rows);
  void require_recorded(trace::Stored what, int layer, const at::Tensor& rows) const;
  void require_recorded(const trace::RunChunk& data) const;
  // To the writer's lane, unless the chunk stands in the trace.
  void submit(std::size_t bytes, std::function<void()> work);

  trace::TraceWriter* writer_;
  trace::ModelInfo model_;
  RecorderOptions options_;
  selection::ModelShape shape_;
  std::optional<Run> closed_loop_;
  std::vector<Run> open_loop_;
  trace::ChunkInfo chunk_;
  int chunk_idx_ = -1;
  std::chrono::steady_clock::time_point chunk_begin_;
  const trace::TraceReader* recorded_ = nullptr;  // has the chunk under way
  bool probing_ = false;
  std::vector<Waiting> waiting_;
  // Closed loop with eviction and a probe: by layer, the keys that the chunk found alive.
  std::map<int, std::vector<trace::SelectedRow>> alive_before_;
  // By layer: of its KV cache, for the methods that score by them.
  std::map<int, std::shared_ptr<selection::KeyCopies>> key_copies_;
  std::vector<float> novelty_;  // of all tokens so far
  at::Tensor novelty_tensor_;
  std::int64_t marked_cells_ = 0;
  std::vector<KeptKeys> kept_;
  RecorderTimes times_;
  HostCopies copies_;  // of the chunk under way
  WriterLane lane_;    // last: its thread uses the writer until it is joined
};

}  // namespace kvloupe::capture
