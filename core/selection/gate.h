// The pooled queries and keys that SeerAttention's gate sees.
#pragma once

#include "core/selection/gate_file.h"
#include "core/selection/rotary.h"
#include "core/selection/selector.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::selection {

// Queries and keys before the rotary embedding, pooled by blocks that begin at position 0. Partial
// blocks pool what they have. A block's pool depends on its own rows alone.
class GatePools {
 public:
  GatePools(const ModelShape& shape, std::int64_t block_size, const std::string& what_failed);

  // Mean of each query block of the chunk, [num_q_heads, Q_b, head_dim].
  std::vector<float> queries(const Cell& cell) const;
  // Largest, smallest and mean value of each channel in the key blocks [first, last),
  // [num_kv_heads, last - first, 3 * head_dim].
  std::vector<float> keys(const Cell& cell, std::int64_t first, std::int64_t last) const;

 private:
  ModelShape shape_;
  std::int64_t block_size_;
  RotaryUndo undo_;
};

}  // namespace kvloupe::selection
