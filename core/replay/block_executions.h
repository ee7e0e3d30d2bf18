// What the three ways of block_metrics.h attend to, and their attention. Needs Torch.
#pragma once

#include "core/attention/block_tables.h"
#include "core/replay/block_metrics.h"
#include "core/selection/selector.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

namespace kvloupe::replay {

class BlockExecutions {
 public:
  // The query heads [first_q_head, first_q_head + num_q_heads) of `cell`, which share a KV head;
  // `masks` are those of all heads.
  BlockExecutions(const selection::Cell& cell, const trace::BlockMasks& masks, int first_q_head,
                  int num_q_heads);

  // These heads alone.
  const selection::Cell& cell() const { return cell_; }
  const trace::BlockMasks& masks() const { return masks_; }
  // Past keys of one of the heads, ascending; a union, or that of what its query blocks read.
  const std::vector<std::int32_t>& past_keys(BlockExecution way, int head) const;
  at::Tensor attend(BlockExecution way) const;  // [num_q_heads, m, head_dim]

 private:
  // Tables of rows of so many heads, and their past keys for each head.
  void unite(BlockExecution way, int q_heads_per_row);

  selection::Cell cell_;
  trace::BlockMasks masks_;
  std::array<attention::BlockTables, kBlockExecutions.size()> tables_;  // none for native
  std::array<std::vector<std::vector<std::int32_t>>, kBlockExecutions.size()> past_keys_;
};

}  // namespace kvloupe::replay
