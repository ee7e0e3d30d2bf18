// From native masks to KV sets, on masks made by hand.
#include "core/selection/blocks/block_selector.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

namespace kvloupe::selection::testing {
namespace {

using Ints = std::vector<std::int32_t>;
using Bytes = std::vector<std::uint8_t>;

Ints range(int begin, int end) {
  Ints positions(static_cast<std::size_t>(end - begin));
  std::iota(positions.begin(), positions.end(), begin);
  return positions;
}

Ints joined(Ints a, const Ints& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Four heads, P = 10, m = 7, blocks of 2: five past blocks, query blocks 5 to 8.
BlockChoice some_choice() { return BlockChoice(BlockGrid{2, 10, 7}, 4); }

void keep(BlockChoice& choice, int head, int query_block, int block, bool forced = false) {
  choice.mask.row(head, query_block)[block] = 1;
  choice.forced.row(head, query_block)[block] = forced;
}

TEST(UnionOf, HoldsWhatAnyHeadAndQueryBlockKeepsAndNoMore) {
  BlockChoice choice = some_choice();
  keep(choice, 0, 0, 1);
  keep(choice, 0, 3, 4);
  keep(choice, 1, 2, 3, true);
  keep(choice, 1, 2, 7);  // of the chunk
  keep(choice, 2, 1, 0);
  EXPECT_EQ(union_of(choice, 0, 1), (Bytes{0, 1, 0, 0, 1}));
  EXPECT_EQ(union_of(choice, 0, 2), (Bytes{0, 1, 0, 2, 1}));
  EXPECT_EQ(union_of(choice, 2, 2), (Bytes{1, 0, 0, 0, 0}));
  EXPECT_EQ(union_of(choice, 3, 1), (Bytes{0, 0, 0, 0, 0}));
  keep(choice, 0, 1, 3);  // forced by one of them is forced
  EXPECT_EQ(union_of(choice, 0, 2)[3], 2);
  choice.abstains = {0, 0, 1, 1};
  EXPECT_EQ(union_of(choice, 0, 2), (Bytes{0, 1, 0, 1, 0}));
}

TEST(RowOfBlocks, WholeBlocksAndTheStraddlingOne) {
  const SelectedRow row = row_of_blocks({4, 10, 6}, Bytes{0, 1});
  EXPECT_EQ(row.positions, range(4, 10));
  EXPECT_EQ(row.forced, (Ints{8, 9}));
  EXPECT_EQ(row.ties_at_cut, 0);
  const SelectedRow none = row_of_blocks({4, 8, 6}, Bytes{0, 0});
  EXPECT_TRUE(none.positions.empty());
  EXPECT_TRUE(none.forced.empty());
  const SelectedRow all = row_of_blocks({4, 11, 1}, Bytes{2, 1});
  EXPECT_EQ(all.positions, range(0, 11));
  EXPECT_EQ(all.forced, (Ints{0, 1, 2, 3, 8, 9, 10}));
}

constexpr const char* kUnion = "flash_prefill:lowering=union";

class GivenMask final : public BlockMasker {
 public:
  explicit GivenMask(BlockChoice choice) : choice_(std::move(choice)) {}
  BlockChoice choose(const Cell&) override { return choice_; }

 private:
  BlockChoice choice_;
};

Cell cell_of(const BlockGrid& grid, int q_heads, int kv_heads) {
  Cell cell;
  cell.chunk = 1;
  cell.past_len = grid.past_len;
  cell.chunk_len = grid.chunk_len;
  cell.q = at::zeros({q_heads, grid.chunk_len, 2});
  cell.k = at::zeros({kv_heads, grid.kv_len(), 2});
  cell.v = cell.k;
  return cell;
}

CellSelection select(const BlockChoice& choice, const std::string& spec, int heads_per_row = 2) {
  const auto heads = static_cast<int>(choice.mask.num_q_heads());
  return make_block_selector(MethodSpec::parse(spec), {trace::RowAxis::KvHead, heads_per_row},
                             std::make_unique<GivenMask>(choice))
      ->select(cell_of(choice.grid, heads, heads / heads_per_row));
}

TEST(BlockSelector, AnEmptyMaskLeavesTheChunkOpen) {
  const CellSelection aligned = select(some_choice(), kUnion);
  ASSERT_EQ(aligned.rows.size(), 2U);
  EXPECT_TRUE(aligned.rows[0].positions.empty());
  EXPECT_FALSE(aligned.dense_reason.has_value());
  EXPECT_FALSE(aligned.budget_tokens.has_value());
  const CellSelection straddling = select(BlockChoice({4, 10, 7}, 2), kUnion);
  EXPECT_EQ(straddling.rows[0].positions, (Ints{8, 9}));
  EXPECT_EQ(straddling.rows[0].forced, (Ints{8, 9}));
}

TEST(BlockSelector, AFullMaskIsEverything) {
  BlockChoice choice({4, 10, 7}, 2);
  for (int head = 0; head < 2; ++head)
    for (int i = 0; i < choice.grid.num_query_blocks(); ++i)
      for (int j = 0; j <= choice.grid.block_of_query_block(i); ++j) keep(choice, head, i, j);
  const CellSelection cell = select(choice, kUnion);
  EXPECT_EQ(cell.rows[0].positions, range(0, 10));
  EXPECT_EQ(cell.rows[0].forced, (Ints{8, 9}));
  EXPECT_TRUE(cell.keeps_every_key());
  EXPECT_TRUE(cell.chooses_keys());
  EXPECT_FALSE(cell.dense_reason.has_value());
  EXPECT_FALSE(cell.dense_fallback());
}

TEST(BlockSelector, RowsUniteTheirOwnHeads) {
  BlockChoice choice = some_choice();
  keep(choice, 0, 1, 2);
  keep(choice, 1, 0, 0, true);
  keep(choice, 3, 3, 4);
  const CellSelection cell = select(choice, kUnion);
  EXPECT_EQ(cell.rows[0].positions, (Ints{0, 1, 4, 5}));
  EXPECT_EQ(cell.rows[0].forced, (Ints{0, 1}));
  EXPECT_EQ(cell.rows[1].positions, (Ints{8, 9}));
  EXPECT_TRUE(cell.rows[1].forced.empty());
  EXPECT_EQ(cell.num_candidates, 10);
  EXPECT_FALSE(cell.keeps_every_key());
  EXPECT_EQ(cell.blocks->kept, choice.mask.values());
  EXPECT_EQ(cell.blocks->forced, choice.forced.values());
  EXPECT_EQ(select(choice, kUnion, 1).rows[1].positions, (Ints{0, 1}));
}

void set_scores(BlockChoice& choice, int head, int query_block, const std::vector<float>& scores) {
  for (std::size_t j = 0; j < scores.size(); ++j)
    choice.scores.row(head, query_block)[j] = scores[j];
}

TEST(BlockSelector, ABudgetTakesTheBestBlocksByMeanScore) {
  BlockChoice choice = some_choice();
  set_scores(choice, 0, 0, {1, 0, 0, 5, 0});
  set_scores(choice, 0, 3, {0, 2, 0, 0, 0});
  set_scores(choice, 1, 2, {1, 2, 0, 0, 3});
  // Sums: 2, 4, 0, 5, 3. Seven tokens are three blocks; the seventh stays unused.
  const auto row = [&](const std::string& tokens) {
    return select(choice, "flash_prefill:lowering=budget,budget_tokens=" + tokens).rows[0];
  };
  EXPECT_EQ(row("7").positions, (Ints{2, 3, 6, 7, 8, 9}));
  EXPECT_TRUE(row("7").forced.empty());
  EXPECT_EQ(row("2").positions, (Ints{6, 7}));
  EXPECT_TRUE(row("1").positions.empty());
  EXPECT_EQ(row("1000").positions, range(0, 10));
  // Kept by rule comes first, whatever it scores, and counts.
  keep(choice, 1, 1, 2, true);
  EXPECT_EQ(row("4").positions, (Ints{4, 5, 6, 7}));
  EXPECT_EQ(row("4").forced, (Ints{4, 5}));
  EXPECT_TRUE(row("1").forced.empty());
  keep(choice, 0, 1, 0, true);
  EXPECT_EQ(row("2").positions, (Ints{0, 1}));  // the better of two
  // Who does not vote does not count.
  choice.abstains = {1, 1, 0, 0};
  EXPECT_EQ(row("4").positions, (Ints{2, 3, 8, 9}));
  EXPECT_EQ(row("4").ties_at_cut, 0);
  EXPECT_EQ(select(choice, "flash_prefill:lowering=budget,budget_ratio=0.5").budget_tokens, 5);
}

TEST(BlockSelector, NativeRowsAreQueryHeadsAndReadTheirMasks) {
  BlockChoice choice = some_choice();
  keep(choice, 0, 1, 2);
  keep(choice, 0, 3, 0, true);
  keep(choice, 1, 2, 4);
  keep(choice, 1, 2, 6);  // of the chunk
  choice.abstains = {0, 0, 0, 1};
  const CellSelection cell = select(choice, "flash_prefill:lowering=native", 1);
  ASSERT_EQ(cell.rows.size(), 4U);
  EXPECT_TRUE(cell.reads_masks);
  EXPECT_EQ(cell.rows[0].positions, (Ints{0, 1, 4, 5}));  // who does not vote reads all the same
  EXPECT_EQ(cell.rows[0].forced, (Ints{0, 1}));
  EXPECT_EQ(cell.rows[1].positions, (Ints{8, 9}));
  EXPECT_TRUE(cell.rows[2].positions.empty());
  // The masks as given, and every query block's own block.
  for (int head = 0; head < 4; ++head)
    for (int i = 0; i < 4; ++i) keep(choice, head, i, 5 + i, true);
  EXPECT_EQ(cell.blocks->kept, choice.mask.values());
  EXPECT_EQ(cell.blocks->forced, choice.forced.values());
  EXPECT_FALSE(select(choice, kUnion).reads_masks);
  // The block of the first query block straddles the chunk's begin.
  const CellSelection straddling =
      select(BlockChoice({4, 10, 7}, 2), "flash_prefill:lowering=native", 1);
  EXPECT_EQ(straddling.rows[1].positions, (Ints{8, 9}));
  EXPECT_EQ(straddling.rows[1].forced, (Ints{8, 9}));
}

TEST(BlockSelector, ABudgetNeverFits) {
  const CellSelection cell =
      select(some_choice(), "flash_prefill:lowering=budget,budget_tokens=1000");
  EXPECT_FALSE(cell.dense_reason.has_value());
  EXPECT_FALSE(cell.dense_fallback());
}

TEST(BlockSelector, SingleKeysBesideBlocks) {
  BlockChoice choice({4, 10, 3}, 2);
  choice.past_keys = {{1, 2, 7}, {2, 5, 8}};
  choice.forced_keys = {{1}, {}};
  const CellSelection cell = select(choice, kUnion);
  EXPECT_EQ(cell.rows[0].positions, (Ints{1, 2, 5, 7, 8, 9}));
  EXPECT_EQ(cell.rows[0].forced, (Ints{1, 8, 9}));  // 1, and 8 and 9 of the straddling block
  EXPECT_EQ(joined(select(choice, kUnion, 1).rows[0].positions, {}), (Ints{1, 2, 7, 8, 9}));
}

TEST(BlockSelector, IsDenseWithoutAPastAndInDecode) {
  const auto selector = make_block_selector(MethodSpec::parse(kUnion), {trace::RowAxis::KvHead, 2},
                                            std::make_unique<GivenMask>(some_choice()));
  const CellSelection first = selector->select(cell_of({2, 0, 7}, 4, 2));
  EXPECT_EQ(first.dense_reason, DenseReason::EmptyPast);
  EXPECT_TRUE(first.dense_fallback());
  EXPECT_EQ(first.rows.size(), 2U);
  Cell step = cell_of({2, 10, 1}, 4, 2);
  step.phase = trace::Phase::Decode;
  const CellSelection decoded = selector->select(step);
  EXPECT_EQ(decoded.dense_reason, DenseReason::MethodRule);
  EXPECT_FALSE(decoded.dense_fallback());
  EXPECT_EQ(decoded.rows[1].positions, range(0, 10));
  EXPECT_FALSE(decoded.blocks.has_value());
}

}  // namespace
}  // namespace kvloupe::selection::testing
