#include "core/selection/gate.h"

#include "core/selection/block_selector.h"
#include "core/selection/cell_rows.h"

#include <algorithm>

namespace kvloupe::selection {

GatePools::GatePools(const ModelShape& shape, std::int64_t block_size,
                     const std::string& what_failed)
    : shape_(shape), block_size_(block_size), undo_(shape, what_failed) {}

std::vector<float> GatePools::queries(const Cell& cell) const {
  const BlockGrid grid = grid_of(cell, block_size_);
  const std::int64_t blocks = grid.num_query_blocks();
  const std::int64_t heads = cell.num_q_heads();
  const std::int64_t dim = shape_.head_dim;
  const bool turned = has_rotary(shape_, cell.layer);
  std::vector<float> pooled(static_cast<std::size_t>(heads * blocks * dim));
  for_each_item(blocks, block_size_ * heads * dim * 4, [&](std::int64_t block) {
    std::vector<double> sums(static_cast<std::size_t>(heads * dim), 0.0);
    std::vector<float> row(static_cast<std::size_t>(dim));
    const std::int64_t begin = grid.row_begin(block);
    const std::int64_t end = grid.row_end(block);
    for (std::int64_t i = begin; i < end; ++i) {
      const Rotary::Turn turn = turned ? undo_.turn_back(cell.past_len + i) : Rotary::Turn{};
      for (std::int64_t head = 0; head < heads; ++head) {
        undo_.undo(turned ? &turn : nullptr, query_row(cell, head, i), row.data());
        for (std::int64_t c = 0; c < dim; ++c) sums[head * dim + c] += static_cast<double>(row[c]);
      }
    }
    for (std::int64_t head = 0; head < heads; ++head)
      for (std::int64_t c = 0; c < dim; ++c)
        pooled[(head * blocks + block) * dim + c] =
            static_cast<float>(sums[head * dim + c] / static_cast<double>(end - begin));
  });
  return pooled;
}

std::vector<float> GatePools::keys(const Cell& cell, std::int64_t first, std::int64_t last) const {
  const BlockGrid grid = grid_of(cell, block_size_);
  const std::int64_t heads = cell.num_kv_heads();
  const std::int64_t dim = shape_.head_dim;
  const bool turned = has_rotary(shape_, cell.layer);
  std::vector<float> pooled(static_cast<std::size_t>(heads * (last - first) * 3 * dim));
  for_each_item(last - first, block_size_ * heads * dim * 6, [&](std::int64_t item) {
    std::vector<double> sums(static_cast<std::size_t>(heads * dim), 0.0);
    std::vector<float> row(static_cast<std::size_t>(dim));
    const std::int64_t begin = grid.key_begin(first + item);
    const std::int64_t end = grid.key_end(first + item);
    for (std::int64_t key = begin; key < end; ++key) {
      const Rotary::Turn turn = turned ? undo_.turn_back(key) : Rotary::Turn{};
      for (std::int64_t head = 0; head < heads; ++head) {
        undo_.undo(turned ? &turn : nullptr, keys_of(cell, head) + key * dim, row.data());
        float* largest = pooled.data() + (head * (last - first) + item) * 3 * dim;
        float* smallest = largest + dim;
        for (std::int64_t c = 0; c < dim; ++c) {
          largest[c] = key == begin ? row[c] : std::max(largest[c], row[c]);
          smallest[c] = key == begin ? row[c] : std::min(smallest[c], row[c]);
          sums[head * dim + c] += static_cast<double>(row[c]);
        }
      }
    }
    for (std::int64_t head = 0; head < heads; ++head)
      for (std::int64_t c = 0; c < dim; ++c)
        pooled[((head * (last - first) + item) * 3 + 2) * dim + c] =
            static_cast<float>(sums[head * dim + c] / static_cast<double>(end - begin));
  });
  return pooled;
}

}  // namespace kvloupe::selection
