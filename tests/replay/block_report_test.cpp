// Block masks from stage to stage: by hand, and against loops over single (query, key) pairs.
#include "core/replay/block_report.h"

#include "core/session/session_tensors.h"

#include <gtest/gtest.h>

#include <random>

namespace kvloupe::replay {
namespace {

using selection::BlockGrid;

BlockMasks empty_masks(const BlockGrid& grid, int num_q_heads) {
  BlockMasks masks;
  masks.grid = grid;
  masks.num_q_heads = num_q_heads;
  masks.kept.assign(masks.index(num_q_heads, 0, 0), 0);
  masks.forced = masks.kept;
  return masks;
}

// 10 past tokens and a chunk of 9 in blocks of 4: blocks 0 and 1 are past, block 2 straddles (2 past
// tokens), query blocks of 2, 4 and 3 rows. Pairs (query block, key block): blocks 0 and 1 have 8,
// 16, 12; block 2 has 7, 16, 12, of which 4, 8, 6 past; block 3 has 0, 10, 12; block 4 has 0, 0, 6.
// Past pairs 90, causal pairs 135, rectangle 171.
BlockMasks two_heads() {
  BlockMasks masks = empty_masks({4, 10, 9}, 2);
  const auto keep = [&](int head, int i, int j, bool by_rule) {
    masks.kept[masks.index(head, i, j)] = 1;
    masks.forced[masks.index(head, i, j)] = by_rule ? 1 : 0;
  };
  keep(0, 0, 0, true);
  keep(0, 0, 2, false);
  keep(0, 1, 3, false);
  keep(0, 2, 0, true);
  keep(0, 2, 4, true);
  for (const int i : {0, 1, 2}) keep(1, i, 2, false);
  keep(1, 1, 3, false);
  keep(1, 2, 4, false);
  return masks;
}

void expect_shares(const PairShares& found, double past, double all) {
  EXPECT_DOUBLE_EQ(found.past, past / 90);
  EXPECT_DOUBLE_EQ(found.causal, all / 135);
  EXPECT_DOUBLE_EQ(found.rectangle, all / 171);
}

BlockState mask_at(const BlockReport& report, std::int64_t head, std::int64_t query_block,
                   std::int64_t block) {
  const std::int64_t row = head * report.grid.num_query_blocks() + query_block;
  return report.mask[static_cast<std::size_t>(row * report.grid.num_key_blocks() + block)];
}

TEST(BlockReportTest, DensitiesByHand) {
  const std::vector<std::int32_t> selected = {0, 1, 2, 3, 8, 9};
  const BlockReport report = block_report(two_heads(), selected, 0, 2, 2);
  // Head 0: 8 + 7, 10, 12 + 6 pairs; head 1: 7, 16 + 10, 12 + 6.
  expect_shares(report.native.kept, (24 + 18) / 2.0, (43 + 51) / 2.0);
  expect_shares(report.native.forced, 20 / 2.0, 26 / 2.0);
  // Head 0 unites to blocks 0, 2, 3, 4, head 1 to 2, 3, 4.
  expect_shares(report.after_query_union.kept, (54 + 18) / 2.0, (99 + 63) / 2.0);
  expect_shares(report.after_query_union.forced, 36 / 2.0, 42 / 2.0);
  expect_shares(report.after_group_union.kept, 54, 99);
  expect_shares(report.after_group_union.forced, 36, 42);
  expect_shares(report.read.kept, 54, 99);
  expect_shares(report.read.forced, 54, 99);  // block 0, the straddling tokens, the open chunk
  EXPECT_FALSE(report.whole_group.has_value());
  expect_shares(native_shares(two_heads(), 0, 2), 21, 47);
  expect_shares(shares_of_set({4, 10, 9}, 6), 54, 99);
}

TEST(BlockReportTest, StatesByHand) {
  using enum BlockState;
  using States = std::vector<BlockState>;
  const std::vector<std::int32_t> selected = {0, 1, 2, 3, 8, 9};
  const BlockReport report = block_report(two_heads(), selected, 0, 2, 2);
  EXPECT_EQ(report.q_heads, (std::vector<int>{0, 1}));
  EXPECT_EQ(States(report.mask.begin(), report.mask.begin() + 15),
            (States{Forced, Dropped, Straddling, Future, Future,  //
                    Dropped, Dropped, Dropped, Current, Future,   //
                    Forced, Dropped, Dropped, Dropped, Current}));
  EXPECT_EQ(mask_at(report, 1, 2, 2), Straddling);
  EXPECT_EQ(report.query_union, (States{Forced, Dropped, Straddling, Current, Current,  //
                                        Dropped, Dropped, Straddling, Current, Current}));
  EXPECT_EQ(report.group_union, (States{Forced, Dropped, Straddling, Current, Current}));
  EXPECT_EQ(report.table, (States{Forced, Dropped, Straddling, Current, Current}));
  EXPECT_EQ(report.pages, (std::vector<std::int32_t>{0, 2, 3, 4}));
}

TEST(BlockReportTest, QueryBlocksThatAbstainDoNotVote) {
  BlockMasks masks = two_heads();
  masks.abstains = {1, 0, 0};
  masks.kept[masks.index(0, 2, 0)] = 0;  // block 0 is wanted by query block 0 alone
  const BlockReport report = block_report(masks, std::vector<std::int32_t>{8, 9}, 0, 2, 2);
  EXPECT_EQ(report.group_union[0], BlockState::Dropped);
  EXPECT_EQ(mask_at(report, 0, 0, 0), BlockState::Forced);
  EXPECT_EQ(report.pages, (std::vector<std::int32_t>{2, 3, 4}));
}

TEST(BlockReportTest, ASubgroupHasAWholeGroupBesideIt) {
  const std::vector<std::int32_t> selected = {8, 9};
  const BlockReport report = block_report(two_heads(), selected, 1, 1, 2);
  EXPECT_EQ(report.q_heads, (std::vector<int>{1}));
  expect_shares(report.after_group_union.kept, 18, 63);
  expect_shares(report.read.kept, 18, 63);
  ASSERT_TRUE(report.whole_group.has_value());
  expect_shares(report.whole_group->kept, 54, 99);
}

TEST(BlockReportTest, RecordedMasksDoNotSayWhatWasForced) {
  BlockMasks masks = two_heads();
  masks.forced.clear();
  const std::vector<std::int32_t> selected = {0, 1, 2, 3, 8, 9};
  const BlockReport report = block_report(masks, selected, 0, 2, 2);
  EXPECT_FALSE(report.knows_forced);
  EXPECT_EQ(report.table.front(), BlockState::Kept);
  expect_shares(report.native.forced, 0, 0);
}

// Counts single pairs.
PairShares counted(const BlockGrid& grid, const auto& attends) {
  double past = 0, all = 0;
  for (std::int64_t t = grid.past_len; t < grid.kv_len(); ++t)
    for (std::int64_t j = 0; j <= t; ++j) {
      if (!attends(t / grid.block_size - grid.past_len / grid.block_size, j)) continue;
      ++all;
      if (j < grid.past_len) ++past;
    }
  const auto m = static_cast<double>(grid.chunk_len), p = static_cast<double>(grid.past_len);
  double causal = 0;
  for (std::int64_t t = grid.past_len; t < grid.kv_len(); ++t) causal += static_cast<double>(t + 1);
  return {past / (m * p), all / causal, all / (m * (m + p))};
}

void expect_near(const PairShares& found, const PairShares& expected) {
  EXPECT_NEAR(found.past, expected.past, 1e-12);
  EXPECT_NEAR(found.causal, expected.causal, 1e-12);
  EXPECT_NEAR(found.rectangle, expected.rectangle, 1e-12);
}

void expect_not_above(const PairShares& low, const PairShares& high) {
  EXPECT_LE(low.past, high.past + 1e-12);
  EXPECT_LE(low.causal, high.causal + 1e-12);
  EXPECT_LE(low.rectangle, high.rectangle + 1e-12);
}

TEST(BlockReportTest, CountsPairsAndNeverThins) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    const BlockGrid grid{1 + static_cast<std::int64_t>(random() % 7),
                         1 + static_cast<std::int64_t>(random() % 40),
                         1 + static_cast<std::int64_t>(random() % 20)};
    const int heads = 4;
    BlockMasks masks = empty_masks(grid, heads);
    for (int head = 0; head < heads; ++head)
      for (std::int64_t i = 0; i < grid.num_query_blocks(); ++i)
        for (std::int64_t j = 0; j <= grid.block_of_query_block(i); ++j)
          masks.kept[masks.index(head, i, j)] = random() % 4 == 0;
    // The row of heads 2 and 3.
    std::vector<std::int32_t> selected;
    const auto united = [&](int first, int last, std::int64_t block) {
      for (int head = first; head <= last; ++head)
        for (std::int64_t i = 0; i < grid.num_query_blocks(); ++i)
          if (masks.kept[masks.index(head, i, block)] != 0) return true;
      return false;
    };
    for (std::int64_t j = 0; j < grid.past_len; ++j)
      if (j / grid.block_size == grid.num_past_blocks() || united(2, 3, j / grid.block_size))
        selected.push_back(static_cast<std::int32_t>(j));
    const BlockReport report = block_report(masks, selected, 2, 2, 4);
    const auto mean = [](const PairShares& a, const PairShares& b) {
      return PairShares{(a.past + b.past) / 2, (a.causal + b.causal) / 2,
                        (a.rectangle + b.rectangle) / 2};
    };
    const auto native = [&](int head) {
      return counted(grid, [&](std::int64_t i, std::int64_t j) {
        return masks.kept[masks.index(head, i, j / grid.block_size)] != 0;
      });
    };
    const auto of_union = [&](int first, int last) {
      return counted(grid, [&](std::int64_t, std::int64_t j) {
        return united(first, last, j / grid.block_size);
      });
    };
    expect_near(report.native.kept, mean(native(2), native(3)));
    expect_near(native_shares(masks, 2, 2), report.native.kept);
    expect_near(report.after_query_union.kept, mean(of_union(2, 2), of_union(3, 3)));
    expect_near(report.after_group_union.kept, of_union(2, 3));
    expect_near(report.whole_group->kept, of_union(0, 3));
    const std::int64_t past = grid.past_len, block = grid.block_size;
    expect_near(report.read.kept, counted(grid, [&](std::int64_t, std::int64_t j) {
                  return j / block >= past / block || united(2, 3, j / block);
                }));
    expect_not_above(report.native.kept, report.after_query_union.kept);
    expect_not_above(report.after_query_union.kept, report.after_group_union.kept);
    expect_not_above(report.after_group_union.kept, report.read.kept);
    expect_not_above(report.after_group_union.kept, report.whole_group->kept);
  }
}

TEST(EndsPrefill, TheLastPromptChunkOfAWholeTrace) {
  using trace::Phase;
  trace::TraceInfo info;
  info.chunks = {{0, 16, Phase::Prefill}, {16, 9, Phase::Prefill}};
  EXPECT_FALSE(
      session::ends_prefill(info, info.chunks[1]));  // more of the prompt may have been to come
  info.generated = {7};
  EXPECT_TRUE(session::ends_prefill(info, info.chunks[1]));
  info.generated.clear();
  info.complete = true;
  EXPECT_TRUE(session::ends_prefill(info, info.chunks[1]));
  EXPECT_FALSE(session::ends_prefill(info, info.chunks[0]));
  EXPECT_TRUE(session::ends_prefill(info, {20, 5, Phase::Prefill}));  // cut anew
  EXPECT_FALSE(session::ends_prefill(info, {10, 10, Phase::Prefill}));
  info.complete = false;
  info.chunks.push_back({25, 1, Phase::Decode});
  EXPECT_TRUE(session::ends_prefill(info, info.chunks[1]));
  EXPECT_FALSE(session::ends_prefill(info, info.chunks[2]));
  // A second turn, whose answer was not recorded.
  info.chunks.push_back({26, 16, Phase::Prefill});
  EXPECT_TRUE(session::ends_prefill(info, info.chunks[1]));
  EXPECT_FALSE(session::ends_prefill(info, info.chunks[3]));
  info.complete = true;
  EXPECT_TRUE(session::ends_prefill(info, info.chunks[3]));
}

}  // namespace
}  // namespace kvloupe::replay
