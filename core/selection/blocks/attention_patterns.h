// What MInference's patterns mean on a cell: which columns and diagonals of the attention map, or
// which blocks, a query head computes.
#pragma once

#include "core/selection/blocks/blocks.h"
#include "core/selection/blocks/pattern_file.h"
#include "core/selection/selector.h"

#include <cstdint>
#include <vector>

namespace kvloupe::selection {

// The chunk's last min(64, m) rows, all of them where that is ablated.
std::vector<std::int32_t> observed_rows(const Cell& cell, Ablation ablation = Ablation::None);
// The attention of these rows in a query head, summed by key and by distance.
struct ObservedAttention {
  std::int64_t num_rows = 0;
  std::vector<float> columns;  // [T] sum of p[i,j]
  std::vector<float> slashes;  // [T] sum of p[i,i-o]
};
std::vector<ObservedAttention> observe_attention(
    const Cell& cell, Ablation ablation = Ablation::None);  // [num_q_heads]

// Columns j and distances o of one query head: row i attends to key j <= i if the column or the
// distance i-j is marked; 2: by rule.
struct PatternLines {
  std::vector<std::uint8_t> columns, slashes;  // [T]
};
// Of VerticalSlash and StreamLlm.
PatternLines lines_of(const HeadPattern& pattern, const ObservedAttention& observed);
// The keys that any of the chunk's rows [row_begin, row_end) attends to, [T]; 2: by rule.
std::vector<std::uint8_t> covered_keys(const PatternLines& lines, const BlockGrid& grid,
                                       std::int64_t row_begin, std::int64_t row_end);

// Of BlockSparse: the blocks that a query block attends to, ascending. `products` are
// those of block_products() for the head.
std::vector<std::int32_t> best_blocks(const std::vector<std::vector<float>>& products,
                                      const BlockGrid& grid, const SoftmaxForm& softmax,
                                      std::int64_t query_block);

}  // namespace kvloupe::selection
