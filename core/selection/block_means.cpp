#include "core/selection/block_means.h"

#include "core/selection/cell_rows.h"

#include <algorithm>

namespace kvloupe::selection {

void mean_of_rows(const float* values, std::int64_t begin, std::int64_t end, std::int64_t dim,
                  float* out) {
  std::vector<double> sums(static_cast<std::size_t>(dim), 0.0);
  for (std::int64_t row = begin; row < end; ++row)
    for (std::int64_t i = 0; i < dim; ++i) sums[i] += static_cast<double>(values[row * dim + i]);
  for (std::int64_t i = 0; i < dim; ++i)
    out[i] = static_cast<float>(sums[i] / static_cast<double>(end - begin));
}

const BlockMeans::Heads& BlockMeans::of(const Cell& cell) {
  Layer& layer = layers_[cell.layer];
  const std::int64_t dim = cell.k.size(2);
  const std::int64_t total = cell.kv_len();
  const std::int64_t blocks = (total + block_size_ - 1) / block_size_;
  // Never a key of this chunk, should the same chunk come twice.
  const std::int64_t known = std::min(layer.complete, cell.past_len / block_size_);
  layer.means.resize(static_cast<std::size_t>(cell.num_kv_heads()));
  for_each_item(cell.num_kv_heads(), (blocks - known) * block_size_ * dim, [&](std::int64_t head) {
    std::vector<float>& means = layer.means[head];
    means.resize(static_cast<std::size_t>(blocks * dim));
    for (std::int64_t block = known; block < blocks; ++block)
      mean_of_rows(keys_of(cell, head), block * block_size_,
                   std::min(total, (block + 1) * block_size_), dim, means.data() + block * dim);
  });
  layer.complete = total / block_size_;
  return layer.means;
}

}  // namespace kvloupe::selection
