// Mean-pooled keys: one vector per block of keys, the mean of its real tokens.
#pragma once

#include "core/selection/selector.h"

#include <cstdint>
#include <map>
#include <vector>

namespace kvloupe::selection {

class BlockMeans {
 public:
  using Heads = std::vector<std::vector<float>>;  // per KV head: [N_b, head_dim]

  explicit BlockMeans(std::int64_t block_size) : block_size_(block_size) {}
  // Means of all blocks of the cell. Those of blocks that were complete before are kept from the
  // layer's earlier chunks: keys in the cache do not change. Valid until the next call.
  const Heads& of(const Cell& cell);

 private:
  struct Layer {
    Heads means;
    std::int64_t complete = 0;  // blocks that were full when they were averaged
  };
  std::int64_t block_size_;
  std::map<int, Layer> layers_;
};

// The mean of rows [begin, end) of `values`, summed in fp64.
void mean_of_rows(const float* values, std::int64_t begin, std::int64_t end, std::int64_t dim,
                  float* out);

}  // namespace kvloupe::selection
