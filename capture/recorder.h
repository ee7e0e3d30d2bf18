// What happens at the decoder's attention hook during a capture: attention is computed, the methods
// select, and all that the trace stores goes to the writer's lane.
#pragma once

#include "capture/capture.h"
#include "capture/decoder.h"
#include "capture/writer_lane.h"
#include "core/selection/selector.h"
#include "core/trace/trace_types.h"
#include "core/trace/trace_writer.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::capture {

struct RecorderOptions {
  trace::DType dtype = trace::DType::F16;
  std::vector<int> layers;  // recorded, ascending
  bool store_qkv = true;
  bool store_lse = true;
  bool store_mass = false;
  // The SPECs, resolved. In closed loop the model attends to what this method selects, in all
  // layers; it is run 0 of the trace.
  std::optional<selection::MethodSpec> closed_loop;
  // Selected beside the model on the recorded layers; the runs that follow.
  std::vector<selection::MethodSpec> open_loop;
};

// The runs of a capture with these options, as a trace declares them.
std::vector<trace::RunInfo> runs_of(const RecorderOptions& options, const trace::ModelInfo& model);

class Recorder final : public AttentionHook {
 public:
  // `writer` must outlive the recorder and is used by the recorder's thread alone until finish().
  // Throws Error{Input} when a method cannot serve the model.
  Recorder(trace::TraceWriter& writer, const trace::ModelInfo& model, RecorderOptions options);
  ~Recorder() override;

  // Around each forward(): which chunk the calls belong to, and its tokens.
  void begin_chunk(const trace::ChunkInfo& chunk);
  at::Tensor attend(const AttentionCall& call) override;
  void end_chunk(std::vector<std::int32_t> ids, std::vector<std::string> texts);
  // Waits until all chunks are written. Throws what the writer threw.
  void finish();

  // (chunk, layer) cells whose stored q, k or v hold a NaN or Inf.
  std::int64_t marked_cells() const { return marked_cells_; }
  RecorderTimes times() const;

 private:
  struct OpenLoopRun {
    int id = 0;
    std::unique_ptr<selection::Selector> selector;
  };
  struct Attended {
    at::Tensor output, lse, key_mass;
  };

  bool is_recorded(int layer) const;
  Attended attend_dense(const selection::Cell& cell, bool recorded);
  Attended attend_closed_loop(const selection::Cell& cell, bool recorded);
  selection::CellSelection select(selection::Selector& selector, const selection::Cell& cell);
  std::vector<std::vector<std::int32_t>> evict(selection::Selector& selector,
                                               const selection::Cell& cell);
  void store_selection(int run, const selection::Cell& cell, selection::CellSelection selection,
                       std::vector<std::vector<std::int32_t>> evicted);
  void store_layer(const AttentionCall& call, const Attended& attended);

  trace::TraceWriter& writer_;
  trace::ModelInfo model_;
  RecorderOptions options_;
  std::unique_ptr<selection::Selector> closed_loop_;
  std::vector<OpenLoopRun> open_loop_;
  trace::ChunkInfo chunk_;
  int chunk_idx_ = -1;
  std::int64_t marked_cells_ = 0;
  RecorderTimes times_;
  WriterLane lane_;  // last: its thread uses the writer until it is joined
};

}  // namespace kvloupe::capture
