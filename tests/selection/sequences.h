// Random sequences for selection tests: one layer's q and k over several chunks, and a way through
// them with a method, whatever the method needs: a basis, another layer's set.
#pragma once

#include "core/selection/selector.h"

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::selection::testing {

struct SequenceShape {
  int num_q_heads = 4;
  int num_kv_heads = 2;
  int head_dim = 16;
  std::vector<int> chunk_lengths = {16, 16, 16, 7};
  int decoded = 2;
  int layer = 0;
  int num_layers = 10;  // of the model that the layer is one of
};

struct Sequence {
  SequenceShape shape;
  std::vector<trace::ChunkInfo> chunks;
  std::vector<float> q;        // [num_q_heads, T, head_dim]
  std::vector<float> k;        // [num_kv_heads, T, head_dim]
  std::vector<float> novelty;  // [T], infinity first
  trace::Basis basis;          // orthonormal and otherwise random, another in each KV head
  c10::Device device{c10::DeviceType::CPU};       // of the tensors of its cells
  c10::ScalarType type = c10::ScalarType::Float;  // of q, k, v and probe queries
  std::optional<SoftmaxForm> softmax;             // of its layer; none: a plain one of scale()

  int num_tokens() const { return chunks.empty() ? 0 : chunks.back().end(); }
  int gqa_group_size() const { return shape.num_q_heads / shape.num_kv_heads; }
  double scale() const;
  const float* query(int head, int position) const {
    return q.data() + (static_cast<std::int64_t>(head) * num_tokens() + position) * shape.head_dim;
  }
  const float* key(int head, int position) const {
    return k.data() + (static_cast<std::int64_t>(head) * num_tokens() + position) * shape.head_dim;
  }
  ModelShape model() const;
};

// Keys share a direction and have a sink, a few queries look elsewhere: nothing is near uniform.
Sequence random_sequence(const SequenceShape& shape, unsigned seed);
// One query head on one KV head, nothing decoded.
inline Sequence one_head_sequence(int head_dim, std::vector<int> chunk_lengths, unsigned seed,
                                  int layer = 0) {
  return random_sequence({.num_q_heads = 1,
                          .num_kv_heads = 1,
                          .head_dim = head_dim,
                          .chunk_lengths = std::move(chunk_lengths),
                          .decoded = 0,
                          .layer = layer},
                         seed);
}

// The same with the numbers that q and k are when they are stored in `type`.
Sequence rounded_to(Sequence sequence, c10::ScalarType type);

// What a probe text asks after a prefill chunk: kProbeLength queries a head, made from the past.
inline constexpr int kProbeLength = 5;
std::vector<float> probe_query(const Sequence& sequence, int chunk, int head, int row);

// The same tokens in another layer: other logits from the same numbers, each key from that key
// alone. So what a test does to a sequence (equal heads, a changed key) it does to every layer.
Sequence in_layer(const Sequence& sequence, int layer);

// The cell of one chunk. `slack`: the keys are a view of a buffer with so many rows more per head,
// as a KV cache is; 0: they are a copy of their own.
Cell cell_of(const Sequence& sequence, int chunk, int slack = 0);

// `spec` on all chunks. Where the method reuses another layer's sets, that layer comes first in
// each chunk.
struct MethodRun {
  std::vector<CellSelection> cells;
  std::vector<std::vector<std::vector<std::int32_t>>> evicted;  // by chunk and row; or empty rows
  std::vector<std::vector<std::int32_t>> alive;
};
MethodRun run_method(const Sequence& sequence, const std::string& spec, int slack = 0);

// A selector of `spec`, with the sequence's basis where the method needs one.
std::unique_ptr<Selector> selector_for(const Sequence& sequence, const std::string& spec);

std::vector<std::vector<std::int32_t>> positions_of(const CellSelection& cell);
// By chunk and row.
std::vector<std::vector<std::vector<std::int32_t>>> positions_of(const MethodRun& run);

}  // namespace kvloupe::selection::testing
