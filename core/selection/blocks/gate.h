// The pooled queries and keys that SeerAttention's gate sees.
#pragma once

#include "core/selection/blocks/gate_file.h"
#include "core/selection/lanes/rotary.h"
#include "core/selection/selector.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace kvloupe::selection {

// Queries and keys before the rotary embedding, pooled by blocks that begin at position 0. Partial
// blocks pool what they have. A block's pool depends on its own rows alone.
class GatePools {
 public:
  GatePools(const ModelShape& shape, std::int64_t block_size, const std::string& what_failed);

  // Mean of each query block of the chunk, [num_q_heads, Q_b, head_dim].
  at::Tensor queries(const Cell& cell) const;
  // Largest, smallest and mean value of each channel in the key blocks [first, last),
  // [num_kv_heads, last - first, 3 * head_dim].
  at::Tensor keys(const Cell& cell, std::int64_t first, std::int64_t last) const;

 private:
  // As they were before the embedding; the first row stands at `position`.
  at::Tensor undone(const Cell& cell, const at::Tensor& rows, std::int64_t position) const;

  ModelShape shape_;
  std::int64_t block_size_;
  RotaryUndo undo_;
};

}  // namespace kvloupe::selection
