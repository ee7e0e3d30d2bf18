// The products that each method takes, by the counter in the kernels (core/base/work_count.h), against
// numbers counted by hand from what the method claims to compute.
#include "core/base/work_count.h"
#include "core/selection/attend.h"
#include "core/selection/lanes/key_copies.h"
#include "tests/selection/method_files.h"
#include "tests/selection/sequences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::selection::testing {
namespace {

// The selection and the attention of the last chunk, with copies of the past at hand.
struct Counted {
  std::int64_t select_products, attend_products, attend_bytes;
  CellSelection selection;
};
Counted work_of_last_chunk(const Sequence& sequence, const std::string& text) {
  const MethodSpec spec = MethodSpec::parse(text).resolved(sequence.model());
  const auto selector = selector_for(sequence, text);
  const auto copies = std::make_shared<KeyCopies>();
  Counted counted{};
  for (std::size_t c = 0; c < sequence.chunks.size(); ++c) {
    Cell cell = cell_of(sequence, static_cast<int>(c));
    cell.copies = copies;
    {
      WorkCount work;
      counted.selection = selector->select(cell);
      selector->evict(cell);
      counted.select_products = work.key_products();
    }
    WorkCount work;
    attend_selected(spec, {}, cell, row_layout(spec, sequence.model()), counted.selection);
    counted.attend_products = work.key_products();
    counted.attend_bytes = work.key_bytes();
  }
  return counted;
}

// 4 query heads, 2 KV heads, 16 channels, 16 queries after 48 keys: all 64 are multiplied.
Sequence last_of_four_chunks() {
  return random_sequence({.chunk_lengths = {16, 16, 16, 16}, .decoded = 0}, 22);
}

TEST(LaneExecution, AquaMultipliesTheLanesThatItKeeps) {
  const Sequence sequence = last_of_four_chunks();
  constexpr std::int64_t kPairs = 4 * 16 * 64;
  for (const auto& [spec, lanes] : std::vector<std::pair<std::string, int>>{
           {"aqua:dim_ratio=0.5", 8},
           {"aqua:dim_ratio=0.25", 4},
           {"static_slicing:dim_ratio=0.5", 8},
           {"aqua_memory:dim_ratio=0.5,slice_ratio=0.25", 6}}) {
    const Counted counted = work_of_last_chunk(sequence, spec);
    EXPECT_EQ(counted.select_products, 0) << spec;
    EXPECT_EQ(counted.attend_products, kPairs * lanes) << spec;
  }
  // Rows that are shorter: 8 numbers of each of 64 keys in both KV heads.
  EXPECT_EQ(work_of_last_chunk(sequence, "static_slicing:dim_ratio=0.5").attend_bytes,
            2 * 64 * 8 * 4);
  // A decoded token: one row a head, whose group reads the lanes of either head.
  const Counted step = work_of_last_chunk(
      random_sequence({.num_q_heads = 2, .chunk_lengths = {63}, .decoded = 1}, 23),
      "aqua:dim_ratio=0.25");
  EXPECT_EQ(step.attend_products, 2 * 64 * 4);
  EXPECT_EQ(step.attend_bytes, 2 * 64 * 4 * 4);
}

// Half of 48 keys are alive, and the chunk's own: 40. What it weighs the keys by is attention to
// the same keys once more.
TEST(LaneExecution, AquaH2oMultipliesLanesOfTheKeysAlive) {
  const Counted counted =
      work_of_last_chunk(last_of_four_chunks(), "aqua_h2o:dim_ratio=0.5,token_ratio=0.5");
  EXPECT_EQ(counted.attend_products, 4 * 16 * 40 * 8);
  EXPECT_EQ(counted.select_products, 4 * 16 * 40 * 8);
}

// A mean query of each KV head with 48 past keys; by probabilities each query with all 64.
TEST(LaneExecution, SparqAndLokiMultiplyTheChannelsThatTheyCompare) {
  const Sequence sequence = last_of_four_chunks();
  for (const std::string method : {"sparq", "loki"}) {
    const std::string spec = method + ":budget_tokens=8,num_channels=3";
    EXPECT_EQ(work_of_last_chunk(sequence, spec).select_products, 2 * 48 * 3) << method;
    EXPECT_EQ(work_of_last_chunk(sequence, spec + ",agg=prob_mean").select_products,
              4 * 16 * 64 * 3)
        << method;
    EXPECT_EQ(work_of_last_chunk(sequence, spec).attend_products, 4 * 16 * (8 + 16) * 16);
  }
}

TEST(LaneExecution, ReusedSetsCostNothing) {
  SequenceShape shape;
  shape.layer = 3;  // reuses layer 2
  const Sequence sequence = random_sequence(shape, 24);
  for (const char* spec : {"tidal_decode:budget_tokens=8", "less_is_more:budget_tokens=8"}) {
    const auto selector = selector_for(sequence, spec);
    const Cell source = cell_of(in_layer(sequence, 2), 2), cell = cell_of(sequence, 2);
    WorkCount of_source;
    selector->select(source);
    EXPECT_GT(of_source.key_products(), 0) << spec;
  }
  for (const char* spec : {"tidal_decode:budget_tokens=8", "less_is_more:budget_tokens=8"}) {
    const auto selector = selector_for(sequence, spec);
    const CellSelection chosen = selector->select(cell_of(in_layer(sequence, 2), 2));
    WorkCount work;
    const CellSelection reused = selector->select(cell_of(sequence, 2));
    EXPECT_EQ(work.key_products(), 0) << spec;
    EXPECT_FALSE(reused.rows.empty());
    EXPECT_FALSE(reused.dense_reason) << spec;
  }
}

// As last_of_four_chunks(), in the layer where cross-layer methods select and Quest no longer skips.
// kQueries: query heads by rows; a query that meets one key takes kDim products.
constexpr std::int64_t kDim = 16, kKvHeads = 2, kQHeads = 4, kRows = 16, kPast = 48, kAll = 64;
constexpr std::int64_t kQueries = kQHeads * kRows, kKept = 8 + kRows;

struct Claim {
  std::string spec;
  std::int64_t select, attend;  // multiply-adds with keys
};

void expect_claims(const std::vector<Claim>& claims) {
  const Sequence sequence =
      random_sequence({.chunk_lengths = {16, 16, 16, 16}, .decoded = 0, .layer = 4}, 22);
  for (const Claim& claim : claims) {
    const Counted counted = work_of_last_chunk(sequence, with_files(claim.spec, sequence));
    EXPECT_EQ(counted.select_products, claim.select) << claim.spec;
    EXPECT_EQ(counted.attend_products, claim.attend) << claim.spec;
  }
}

TEST(WorkOfMethods, WhatScoresKeysByQueries) {
  constexpr std::int64_t kAttend = kQueries * kKept * kDim;
  expect_claims({
      {"dense", 0, kQueries * kAll * kDim},
      {"random:budget_tokens=8", 0, kAttend},
      {"sliding_window:budget_tokens=8", 0, kAttend},
      {"oracle:budget_tokens=8", kQueries * kAll * kDim, kAttend},
      // One mean row of the group in each slot; its own in each head before the group's mean.
      {"quoka:budget_tokens=8,num_queries=4", kKvHeads * 4 * kPast * kDim, kAttend},
      {"quoka:budget_tokens=8,num_queries=4,group_query_mode=post_agg", kQHeads * 4 * kPast * kDim,
       kAttend},
      {"uniform_queries:budget_tokens=8,num_queries=4", kKvHeads * 4 * kPast * kDim, kAttend},
      // Probabilities: of the sampled rows with all that they see.
      {"sample_attention:budget_tokens=8,num_queries=4", kQHeads * 4 * kAll * kDim, kAttend},
      {"tidal_decode:budget_tokens=8", kKvHeads * kPast * kDim, kQueries * kAll * kDim},
      // Each head for itself, without the two keys that are kept as the newest.
      {"less_is_more:budget_tokens=8", kQHeads * (kPast - 2) * kDim, kQueries * kAll * kDim},
  });
}

// What is alive is met alone: 8 of the past, and the chunk.
TEST(WorkOfMethods, WhatEvictsScoresTheKeysAlive) {
  constexpr std::int64_t kAttend = kQueries * kKept * kDim;
  expect_claims({
      {"streaming_llm:budget_tokens=8", 0, kAttend},
      {"keydiff:budget_tokens=8", kKvHeads * kKept * kDim, kAttend},
      {"h2o:budget_tokens=8", kQueries * kKept * kDim, kAttend},
      // The last row of each head.
      {"tova:budget_tokens=8", kQHeads * kKept * kDim, kAttend},
      {"snapkv:budget_tokens=8,window=4", kQHeads * 4 * kKept * kDim, kAttend},
      {"snapkv:budget_tokens=8,window=4,state=select", kQHeads * 4 * kAll * kDim, kAttend},
      {"infinipot:budget_tokens=8", kQHeads * kProbeLength * kKept * kDim, kAttend},
  });
}

// A bound is two products of a channel: the smaller of them is not known before.
TEST(WorkOfMethods, QuestMeetsTheBoundsOfPages) {
  constexpr std::int64_t kPages = kPast / 4;
  expect_claims({
      {"quest:budget_tokens=8,page_size=4", kQueries * kPages * 2 * kDim, kQueries * kKept * kDim},
      {"quest:budget_tokens=8,page_size=4,prefill=dense", 0, kQueries * kAll * kDim},
  });
}

// Blocks of 8: the chunk's two query blocks see 7 and 8 of them.
TEST(WorkOfMethods, BlockMethodsMeetBlocks) {
  constexpr std::int64_t kSeen = 7 + 8;
  expect_claims({
      {"flash_prefill:block_size=8,lowering=budget,budget_tokens=8", kQHeads * 8 * kSeen * kDim,
       kQueries * kKept * kDim},
      // Rows and keys of 4 tokens each: half a product of each query with each key by 2.
      {"xattention:block_size=8,stride=4,lowering=budget,budget_tokens=8",
       kQHeads * 2 * (kSeen * 2) * 4 * kDim, kQueries * kKept * kDim},
      {"seer_attention:block_size=8,gate=FILE,lowering=budget,budget_tokens=8",
       kQHeads * kSeen * 12, kQueries * kKept * kDim},
      // Its last 64 rows, here all.
      {"minference:config=FILE,lowering=budget,budget_tokens=64", kQueries * kAll * kDim,
       kQueries * kAll * kDim},
  });
  // The last 8 rows with all keys, and their mean with all blocks; a query-aware head also meets the
  // means of each query block with the blocks that it sees.
  constexpr std::int64_t kObserved = kQHeads * (8 * kAll + 8) * kDim;
  const std::string flex = "flex_prefill:block_size=8,lowering=budget,budget_tokens=8,min_budget=8";
  expect_claims({
      {flex + ",tau=0", kObserved, kQueries * kKept * kDim},
      {flex + ",tau=1", kObserved + kQHeads * kSeen * kDim, kQueries * kKept * kDim},
  });
}

// Unions read what is in them, for the heads that share them; native execution the pairs of blocks
// that the masks let through, no more.
TEST(WorkOfMethods, BlockMethodsAttendToTheBlocksThatTheyKeep) {
  const Sequence sequence = last_of_four_chunks();
  const std::string own = "block_size=8,alpha=0.8,sink_blocks=1,window_blocks=1";
  for (const std::string& spec : std::vector<std::string>{
           "flash_prefill:lowering=union," + own, "compact_attention:subgroup_size=1," + own}) {
    const Counted counted = work_of_last_chunk(sequence, spec);
    std::int64_t keys = 0;
    for (const SelectedRow& row : counted.selection.rows)
      keys += static_cast<std::int64_t>(row.positions.size()) + kRows;
    keys *= kQHeads / static_cast<std::int64_t>(counted.selection.rows.size());
    EXPECT_LT(keys, kQHeads * kAll) << spec;
    EXPECT_EQ(counted.attend_products, keys * kRows * kDim) << spec;
  }
  const Counted native = work_of_last_chunk(sequence, "flash_prefill:lowering=native," + own);
  const std::vector<std::uint8_t>& kept = masks_of(native.selection).kept;
  const auto pairs = std::count(kept.begin(), kept.end(), 1);
  EXPECT_LT(pairs, kQHeads * (7 + 8));
  EXPECT_EQ(native.attend_products, pairs * 8 * 8 * kDim);
}

}  // namespace
}  // namespace kvloupe::selection::testing
