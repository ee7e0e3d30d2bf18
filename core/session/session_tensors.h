// Tensors of a session, for the analyses (not for panels: this header needs Torch).
#pragma once

#include "core/selection/selector.h"
#include "core/session/session.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace kvloupe::session {

// Whole captured rows of one layer, fp32, cached: [num_kv_heads, T, head_dim].
at::Tensor layer_k(const TraceSession& session, int layer);
at::Tensor layer_v(const TraceSession& session, int layer);
// K of one KV head, [end, head_dim]: of the layer where that is held, else read for this call alone.
at::Tensor head_k(const TraceSession& session, int layer, int kv_head, std::int32_t end);

// Whether the chunk, of the trace or of a new cut of it, is the last one of a prompt, in each turn of
// a conversation: not known, and so false, where a capture was cut short before the model's first
// answer.
bool ends_prefill(const trace::TraceInfo& info, const trace::ChunkInfo& chunk);

// The cell of one (layer, chunk): q is its own, k and v are views of the cached layer (contiguous
// inside a head), as in a live KV cache. Throws Error{Input} naming layer, head and
// position when q, k or v hold a NaN or Inf that the cell can see.
selection::Cell load_cell(const TraceSession& session, int layer, int chunk_idx,
                          const trace::ChunkInfo& chunk);

// Cells on a device, from any number of layers and chunks: K and V of a layer are brought there once
// for all the cells that follow each other in it. On the CPU they are those of load_cell(); elsewhere in
// `type`, which must hold the trace's numbers. `session` is borrowed.
class CellLoader {
 public:
  CellLoader(const TraceSession& session, c10::Device device,
             c10::ScalarType type = c10::ScalarType::Float)
      : session_(session), device_(device), type_(type) {}
  // Throws as load_cell().
  selection::Cell load(int layer, int chunk_idx, const trace::ChunkInfo& chunk);

 private:
  const TraceSession& session_;
  c10::Device device_;
  c10::ScalarType type_;
  int layer_ = -1;
  at::Tensor k_, v_;  // of layer_, on the device
};

// Fills probe_q (prefill chunks) and novelty for the methods that need them. Throws Error{Input}
// when they were not recorded.
void add_probe(const TraceSession& session, selection::Cell& cell);

// Exact column mass of a cell, [num_kv_heads, T]; computed from q and k.
at::Tensor cell_mass(const selection::Cell& cell);

}  // namespace kvloupe::session
