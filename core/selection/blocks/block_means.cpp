#include "core/selection/blocks/block_means.h"

#include "core/selection/cell_rows.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace kvloupe::selection {

at::Tensor BlockMeans::of(const Cell& cell) {
  Layer& layer = layers_[cell.layer];
  const std::int64_t total = cell.kv_len();
  // Never a key of this chunk, should the same chunk come twice.
  const std::int64_t known = std::min(layer.complete, cell.past_len / block_size_);
  const std::int64_t begin = known * block_size_;
  layer.means.put(known, block_means(cell.k.narrow(1, begin, total - begin), block_size_));
  layer.complete = total / block_size_;
  return layer.means.rows();
}

std::vector<std::vector<std::vector<float>>> block_products(
    const Cell& cell, const BlockGrid& grid, const at::Tensor& key_means,
    const std::vector<std::int64_t>& q_heads) {
  const std::int64_t blocks = grid.num_query_blocks();
  std::vector<at::Tensor> begun(q_heads.size() * static_cast<std::size_t>(blocks));
  const std::int64_t operations =
      cell.q.size(2) * (grid.chunk_len + blocks * grid.num_key_blocks());
  const auto count = static_cast<std::int64_t>(q_heads.size());
  for_each_item_on(cell.q.device(), count, operations, [&](std::int64_t item) {
    const std::int64_t q_head = q_heads[static_cast<std::size_t>(item)];
    // Query blocks are cut at the places of key blocks, the first of them where the chunk begins.
    const at::Tensor means =
        block_means(cell.q.narrow(0, q_head, 1), grid.block_size, grid.past_len % grid.block_size);
    const at::Tensor keys = key_means.narrow(0, q_head / cell.gqa_group_size(), 1);
    for (std::int64_t i = 0; i < blocks; ++i)
      begun[static_cast<std::size_t>(item * blocks + i)] =
          key_products(means.select(1, i), keys.narrow(1, 0, grid.block_of_query_block(i) + 1));
  });
  std::vector<std::vector<std::vector<float>>> products(
      static_cast<std::size_t>(cell.num_q_heads()));
  std::vector<std::vector<float>> rows = all_on_host<float>(begun);
  auto row = rows.begin();
  for (const std::int64_t q_head : q_heads)
    for (std::int64_t i = 0; i < blocks; ++i)
      products[static_cast<std::size_t>(q_head)].push_back(std::move(*row++));
  return products;
}

}  // namespace kvloupe::selection
