// Slow oracles of the block methods: plain fp64 loops over true positions, written from the papers
// and the contract, sharing no arithmetic with core/selection.
#pragma once

#include "tests/selection/sequences.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::selection::testing {

// One chunk as one query head sees it, by query block and key block.
struct HeadMask {
  std::vector<std::vector<int>> keep;  // 0, 1, 2: by rule
  std::vector<std::vector<double>> scores;
};

struct ChunkMask {
  int block_size = 0, past_blocks = 0;
  std::vector<int> query_blocks;  // their numbers, from position 0
  std::vector<HeadMask> heads;
  std::vector<int> abstains;  // by query block
};

ChunkMask block_mask(const Sequence& sequence, const MethodSpec& spec, int chunk);

// The past tokens of a row of `count` heads from `first` on, and how many of them are kept by rule:
// the union, or the blocks that the budget holds.
SelectedRow lowered_row(const Sequence& sequence, const MethodSpec& spec, int chunk,
                        const ChunkMask& mask, int first, int count);

}  // namespace kvloupe::selection::testing
