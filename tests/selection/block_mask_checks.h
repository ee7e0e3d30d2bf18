// What the tests of the block methods share: tiny sequences and a look at their masks.
#pragma once

#include "tests/selection/sequences.h"

#include <cmath>
#include <numeric>

namespace kvloupe::selection::testing {

using Ints = std::vector<std::int32_t>;

inline Ints range(int begin, int end) {
  Ints positions(static_cast<std::size_t>(end - begin));
  std::iota(positions.begin(), positions.end(), begin);
  return positions;
}

// One head; the scale of the dimension is taken out of the queries.
inline Sequence one_head(std::vector<int> lengths, int dim, std::vector<float> q,
                         std::vector<float> k) {
  Sequence sequence = one_head_sequence(dim, std::move(lengths), 1);
  for (float& value : q) value *= std::sqrt(static_cast<float>(dim));
  sequence.q = std::move(q);
  sequence.k = std::move(k);
  return sequence;
}

inline Ints kept_blocks(const CellSelection& cell, int head, int query_block) {
  const trace::BlockMasks& masks = cell.blocks.value();
  Ints blocks;
  for (int j = 0; j < masks.grid.num_key_blocks(); ++j)
    if (masks.kept[masks.index(head, query_block, j)] != 0) blocks.push_back(j);
  return blocks;
}

}  // namespace kvloupe::selection::testing
