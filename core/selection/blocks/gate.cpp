#include "core/selection/blocks/gate.h"

#include "core/selection/blocks/block_selector.h"
#include "core/selection/operators/operators.h"

#include <ATen/ATen.h>

namespace kvloupe::selection {

GatePools::GatePools(const ModelShape& shape, std::int64_t block_size,
                     const std::string& what_failed)
    : shape_(shape), block_size_(block_size), undo_(shape, what_failed) {}

at::Tensor GatePools::undone(const Cell& cell, const at::Tensor& rows,
                             std::int64_t position) const {
  return undo_.undo(rows, has_rotary(shape_, cell.layer) ? std::optional(position) : std::nullopt);
}

at::Tensor GatePools::queries(const Cell& cell) const {
  return block_means(undone(cell, cell.q, cell.past_len), block_size_, cell.past_len % block_size_);
}

at::Tensor GatePools::keys(const Cell& cell, std::int64_t first, std::int64_t last) const {
  const BlockGrid grid = grid_of(cell, block_size_);
  const std::int64_t begin = grid.key_begin(first), end = grid.key_end(last - 1);
  const at::Tensor rows = undone(cell, cell.k.narrow(1, begin, end - begin), begin);
  // Largest and smallest values of a block lie side by side.
  return at::cat({page_bounds(rows, block_size_).flatten(2), block_means(rows, block_size_)}, 2);
}

}  // namespace kvloupe::selection
