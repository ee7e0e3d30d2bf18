// FlexPrefill on hand-computed examples; block_methods_test.cpp holds it against the slow oracle.
#include "tests/selection/block_mask_checks.h"

#include <gtest/gtest.h>

namespace kvloupe::selection::testing {
namespace {

// All attention on the key three before: with blocks of 2 and T = 11, index 7 from the far end lies
// in slash block 3 of 6, two back.
TEST(FlexPrefill, SlashBlocksAreCutFromTheFarEnd) {
  constexpr int kTotal = 11, kDim = 16;
  std::vector<float> q(kTotal * kDim, 0.0F), k(kTotal * kDim, 0.0F);
  for (int j = 0; j < kTotal; ++j) k[j * kDim + j] = 1;
  for (int t = 3; t < kTotal; ++t) q[t * kDim + t - 3] = 200;
  const Sequence sequence = one_head({8, 3}, kDim, q, k);
  const CellSelection cell =
      run_method(sequence, "flex_prefill:lowering=union,block_size=2,gamma=0.5,tau=0,min_budget=4")
          .cells[1];
  // Two of each: columns 0 and 3 (positions 6, 7), diagonals 0 and 2.
  EXPECT_EQ(kept_blocks(cell, 0, 0), (Ints{0, 2, 3, 4}));
  EXPECT_EQ(kept_blocks(cell, 0, 1), (Ints{0, 3, 5}));
  EXPECT_EQ(cell.rows[0].positions, (Ints{0, 1, 4, 5, 6, 7}));
  EXPECT_EQ(cell.rows[0].forced, (Ints{0, 1}));
}

TEST(FlexPrefill, AllAttentionIsAllBlocks) {
  const Sequence sequence = random_sequence({.chunk_lengths = {300, 130}}, 6);
  const auto first_row = [&](const std::string& options) {
    return run_method(sequence, "flex_prefill:lowering=union,gamma=1,min_budget=0," + options)
        .cells[1]
        .rows[0]
        .positions;
  };
  EXPECT_EQ(first_row("tau=0"), range(0, 300));
  // A block counts for 128 tokens, whatever its size: 431 tokens are 4 blocks of 10.
  EXPECT_LT(first_row("tau=0,block_size=10").size(), 300U);
  // A query-aware head keeps all pairs.
  EXPECT_EQ(first_row("tau=1,block_size=10"), range(0, 300));
}

// One query after five keys, in blocks of two. Key 0 counts three times as much as its neighbours
// and key 1 a third: the blocks hold 10/22, 6/22 and 6/22 of the attention, but their mean keys are
// alike. sqrt(JS((1/3, 1/3, 1/3), (10, 6, 6) / 22)) is 0.087840.
TEST(FlexPrefill, AHeadWhosePoolsTellIsQueryAware) {
  const float k = std::log(3.0F);
  const Sequence sequence = one_head({5, 1}, 1, std::vector<float>(6, 1.0F), {k, -k, 0, 0, 0, 0});
  const std::string own = "flex_prefill:lowering=union,block_size=2,min_budget=2,gamma=0.7,";
  const auto kept = [&](const std::string& tau) {
    return kept_blocks(run_method(sequence, own + "tau=" + tau).cells[1], 0, 0);
  };
  // One column and one diagonal block; beside them two pairs of a third each.
  EXPECT_EQ(kept("0.0878"), (Ints{0, 2}));
  EXPECT_EQ(kept("0.0879"), (Ints{0, 1, 2}));
}

// Pairs of all query blocks are ranked together, against gamma for each of them.
TEST(FlexPrefill, PairsOfAllQueryBlocksShareTheCoverage) {
  // Keys of blocks 0 to 3: 0, 1, 0, 0. The query of block 2 looks at block 1 alone, that of block 3
  // at nothing: pairs of 1, then four of 1/4, of which gamma = 0.8 of 2 leaves two.
  const Sequence sequence =
      one_head({4, 4}, 1, {0, 0, 0, 0, /**/ 50, 50, 0, 0}, {0, 0, 1, 1, /**/ 0, 0, 0, 0});
  const CellSelection cell =
      run_method(sequence, "flex_prefill:lowering=union,block_size=2,min_budget=2,gamma=0.8,tau=1")
          .cells[1];
  EXPECT_EQ(kept_blocks(cell, 0, 0), (Ints{0, 1, 2}));
  EXPECT_EQ(kept_blocks(cell, 0, 1), (Ints{0, 1, 3}));
  EXPECT_EQ(cell.rows[0].positions, (Ints{0, 1, 2, 3}));
}

// The pairs of block 2 are larger than those of block 3 and sum up to 1, which is gamma for each of
// two query blocks: all three fit, however the softmax was rounded.
TEST(FlexPrefill, AWholeRowFitsHalfOfTwo) {
  for (int step = 1; step <= 20; ++step) {
    const float logit = 0.013F * static_cast<float>(step);
    const Sequence sequence = one_head({4, 4}, 1, {0, 0, 0, 0, /**/ logit, logit, 0, 0},
                                       {.3F, .3F, -.4F, -.4F, /**/ 0, 0, 0, 0});
    const CellSelection cell =
        run_method(sequence,
                   "flex_prefill:lowering=union,block_size=2,min_budget=2,gamma=0.5,tau=1")
            .cells[1];
    EXPECT_EQ(kept_blocks(cell, 0, 0), (Ints{0, 1, 2})) << step;
    EXPECT_EQ(kept_blocks(cell, 0, 1), (Ints{0, 3})) << step;
  }
}

}  // namespace
}  // namespace kvloupe::selection::testing
