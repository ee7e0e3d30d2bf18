// Mean-pooled keys: one vector per block of keys, the mean of its real tokens.
#pragma once

#include "core/selection/blocks/blocks.h"
#include "core/selection/eviction/growing_rows.h"
#include "core/selection/selector.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <vector>

namespace kvloupe::selection {

class BlockMeans {
 public:
  explicit BlockMeans(std::int64_t block_size) : block_size_(block_size) {}
  // Means of all blocks of the cell, [num_kv_heads, N_b, head_dim]. Those of blocks that were complete
  // before are kept from the layer's earlier chunks: keys in the cache do not change. Valid until the
  // next call.
  at::Tensor of(const Cell& cell);

 private:
  struct Layer {
    GrowingRows means;
    std::int64_t complete = 0;  // blocks that were full when they were averaged
  };
  std::int64_t block_size_;
  std::map<int, Layer> layers_;
};

// <mean query of block I, mean key of block J> by query block, for the key blocks J that it does not lie
// before. Of these query heads alone, [num_q_heads]; the host waits once. key_means as of().
std::vector<std::vector<std::vector<float>>> block_products(
    const Cell& cell, const BlockGrid& grid, const at::Tensor& key_means,
    const std::vector<std::int64_t>& q_heads);

}  // namespace kvloupe::selection
