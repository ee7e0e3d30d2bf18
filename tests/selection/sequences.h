// Random sequences for selection tests: one layer's q and k over several chunks, and a way through
// them with a method.
#pragma once

#include "core/selection/selector.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::selection::testing {

struct SequenceShape {
  int num_q_heads = 4;
  int num_kv_heads = 2;
  int head_dim = 16;
  std::vector<int> chunk_lengths = {16, 16, 16, 7};
  int decoded = 2;
  int layer = 0;
};

struct Sequence {
  SequenceShape shape;
  std::vector<trace::ChunkInfo> chunks;
  std::vector<float> q;  // [num_q_heads, T, head_dim]
  std::vector<float> k;  // [num_kv_heads, T, head_dim]

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

// The cell of one chunk. `slack`: the keys are a view of a buffer with so many rows more per head,
// as a KV cache is; 0: they are a copy of their own.
Cell cell_of(const Sequence& sequence, int chunk, int slack = 0);

// `spec` on all chunks.
struct MethodRun {
  std::vector<CellSelection> cells;
  std::vector<std::vector<std::vector<std::int32_t>>> evicted;  // by chunk and row; or empty rows
  std::vector<std::vector<std::int32_t>> alive;
};
MethodRun run_method(const Sequence& sequence, const std::string& spec, int slack = 0);

std::vector<std::vector<std::int32_t>> positions_of(const CellSelection& cell);

}  // namespace kvloupe::selection::testing
