// FlashPrefill, XAttention, FlexPrefill and CompactAttention: hand-computed examples (those of
// FlexPrefill are in a file of their own), the slow oracle, and what unions must be.
#include "core/base/error.h"
#include "tests/selection/block_mask_checks.h"
#include "tests/selection/oracles_blocks.h"
#include "tests/selection/sequences.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::selection::testing {
namespace {

std::vector<float> scores_of(const CellSelection& cell, int head, int query_block) {
  const float* row = cell.block_scores.row(head, query_block);
  return std::vector<float>(row, row + cell.blocks.value().grid.num_key_blocks());
}

void expect_near(const std::vector<float>& values, const std::vector<double>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 5e-4) << i;
}

// Logits of the rows (2, 0, -inf), (0, 0, 1): only the last row sees the diagonal block.
TEST(FlashPrefill, OneSoftmaxOverRowsAndBlocks) {
  const Sequence sequence = one_head({4, 2}, 2, {0, 0, 0, 0, 0, 0, 0, 0, /**/ 2, 0, 0, 1},
                                     {2, 0, 0, 0, 1, 1, -1, -1, /**/ 0, 3, 0, -1});
  const std::string own =
      "flash_prefill:lowering=union,block_size=2,sink_blocks=0,window_blocks=0,";
  const CellSelection cell = run_method(sequence, own + "alpha=0.2").cells[1];
  expect_near(scores_of(cell, 0, 0), {.640, .153, .207});
  EXPECT_EQ(kept_blocks(cell, 0, 0), (Ints{0, 1, 2}));
  EXPECT_EQ(kept_blocks(run_method(sequence, own + "alpha=0.3").cells[1], 0, 0), (Ints{0, 2}));
}

// Logits of the rows (2, 0, 1), (0, 0, 1), and a diagonal block that nothing looks at.
TEST(FlashPrefill, RowsWithLargeLogitsDominate) {
  const Sequence sequence =
      one_head({6, 2}, 2, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /**/ 2, 1, 0, 1},
               {1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1, /**/ 0, -100, 0, -100});
  const CellSelection cell =
      run_method(
          sequence,
          "flash_prefill:lowering=union,block_size=2,sink_blocks=0,window_blocks=0,alpha=0.5")
          .cells[1];
  expect_near(scores_of(cell, 0, 0), {.530, .126, .344, 0});
  EXPECT_EQ(kept_blocks(cell, 0, 0), (Ints{0, 2}));
  EXPECT_EQ(cell.rows[0].positions, (Ints{0, 1, 4, 5}));
  EXPECT_TRUE(cell.rows[0].forced.empty());
}

TEST(FlashPrefill, SinksAndWindowAreForced) {
  const Sequence sequence = random_sequence({.chunk_lengths = {40, 8}}, 2);
  const CellSelection cell =
      run_method(sequence,
                 "flash_prefill:lowering=union,block_size=4,alpha=1,sink_blocks=1,window_blocks=3")
          .cells[1];
  // Query blocks 10 and 11: the window of the first reaches back to 8, of the second to 9.
  for (const SelectedRow& row : cell.rows) {
    EXPECT_EQ(row.forced, (Ints{0, 1, 2, 3, 32, 33, 34, 35, 36, 37, 38, 39}));
    for (const int position : {0, 3, 32, 39})
      EXPECT_TRUE(std::binary_search(row.positions.begin(), row.positions.end(), position));
  }
}

// Blocks that no row sees whole score nothing, and nothing is at least alpha times nothing.
TEST(FlashPrefill, WithoutAnyWholeBlockAllIsKept) {
  const CellSelection cell = run_method(random_sequence({.chunk_lengths = {5, 3}}, 3),
                                        "flash_prefill:lowering=union,block_size=16,sink_blocks=0,"
                                        "window_blocks=0,alpha=1")
                                 .cells[1];
  EXPECT_EQ(kept_blocks(cell, 0, 0), Ints{0});
  EXPECT_EQ(cell.rows[0].positions, range(0, 5));
  EXPECT_EQ(cell.rows[0].forced, range(0, 5));  // the block straddles the chunk's begin
}

TEST(FlashPrefill, TheLastBlocksOfThePromptDoNotVote) {
  const Sequence sequence = random_sequence({.chunk_lengths = {32, 12, 12}}, 4);
  const std::string own =
      "flash_prefill:lowering=union,block_size=4,alpha=0.9,sink_blocks=0,window_blocks=0";
  const MethodRun plain = run_method(sequence, own);
  const MethodRun compat = run_method(sequence, own + ",last_full_blocks=2");
  EXPECT_EQ(positions_of(compat.cells[1]), positions_of(plain.cells[1]));
  EXPECT_EQ(compat.cells[2].blocks->abstains, (std::vector<std::uint8_t>{0, 1, 1}));
  EXPECT_EQ(kept_blocks(compat.cells[2], 3, 1), range(0, 13));
  EXPECT_EQ(kept_blocks(compat.cells[2], 3, 2), range(0, 14));
  // Only the first query block votes.
  for (int row = 0; row < 2; ++row) {
    Ints expected;
    for (int j = 0; j < 11; ++j)
      for (int head = 2 * row; head < 2 * row + 2; ++head)
        if (plain.cells[2].blocks->kept[plain.cells[2].blocks->index(head, 0, j)] != 0) {
          for (int i = 0; i < 4; ++i) expected.push_back(4 * j + i);
          break;
        }
    EXPECT_EQ(compat.cells[2].rows[static_cast<std::size_t>(row)].positions, expected);
  }
  // The first one always does.
  const MethodRun all = run_method(sequence, own + ",last_full_blocks=50");
  EXPECT_EQ(positions_of(all.cells[2]), positions_of(compat.cells[2]));
}

// A row of estimated masses, made exact by blocks and strides of one token.
Ints xattention_row(const std::vector<double>& masses, const std::string& tau) {
  const auto past = static_cast<int>(masses.size()) - 1;
  std::vector<float> keys;
  for (const double mass : masses) keys.push_back(static_cast<float>(std::log(mass)));
  const Sequence sequence = one_head({past, 1}, 1, std::vector<float>(masses.size(), 1.0F), keys);
  const CellSelection cell =
      run_method(sequence, "xattention:lowering=union,block_size=1,stride=1,tau=" + tau).cells[1];
  expect_near(scores_of(cell, 0, 0), masses);
  EXPECT_EQ(cell.rows[0].forced, Ints{0});
  return kept_blocks(cell, 0, 0);
}

TEST(XAttention, FewestBlocksThatHoldTau) {
  const std::vector<double> row = {.20, .05, .30, .10, .25, .10};
  EXPECT_EQ(xattention_row(row, "0.5"), (Ints{0, 2, 5}));
  EXPECT_EQ(xattention_row(row, "0.61"), (Ints{0, 2, 4, 5}));
  EXPECT_EQ(xattention_row(row, "0.9"), (Ints{0, 2, 3, 4, 5}));
  EXPECT_EQ(xattention_row(row, "1"), (Ints{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(xattention_row(row, "0"), (Ints{0, 5}));
  const std::vector<double> other = {.1, .05, .4, .02, .13, .3};
  EXPECT_EQ(xattention_row(other, "0.3"), (Ints{0, 5}));
  EXPECT_EQ(xattention_row(other, "0.75"), (Ints{0, 2, 5}));
  // Masses that sum up to tau are enough, however they were rounded.
  EXPECT_EQ(xattention_row(row, "0.6"), (Ints{0, 2, 5}));
  EXPECT_EQ(xattention_row(row, "0.85"), (Ints{0, 2, 4, 5}));
  EXPECT_EQ(xattention_row(other, "0.4"), (Ints{0, 5}));
  EXPECT_EQ(xattention_row(other, "0.8"), (Ints{0, 2, 5}));
  EXPECT_EQ(xattention_row(other, "0.93"), (Ints{0, 2, 4, 5}));
}

TEST(XAttention, OfEqualMassesTheFirstComeFirst) {
  const std::vector<double> row(8, .125);
  EXPECT_EQ(xattention_row(row, "0.2"), (Ints{0, 7}));
  EXPECT_EQ(xattention_row(row, "0.3"), (Ints{0, 1, 7}));
  EXPECT_EQ(xattention_row(row, "0.6"), (Ints{0, 1, 2, 3, 7}));
}

// Stride 2: row a has q[2a+1] k[2n] + q[2a] k[2n+1]. The chunk begins inside a stride and ends
// inside one: q[2], k[6] and k[7] do not exist.
TEST(XAttention, StridesStartAtPositionZero) {
  const Sequence sequence = one_head({3, 3}, 1, {9, 9, 9, /**/ 2, 1, 3}, {1, 2, 0, 1, /**/ -1, 4});
  const CellSelection cell =
      run_method(sequence, "xattention:lowering=union,block_size=2,stride=2,tau=0").cells[1];
  // a = 1: q[3] k[2n] / 2: (1, 0). a = 2: (q[5] k[2n] + q[4] k[2n+1]) / 2: (2.5, 0.5, 0.5).
  const double first = std::exp(1.0) + 1;
  expect_near(scores_of(cell, 0, 0), {std::exp(1.0) / first, 1 / first, 0});
  const double second = std::exp(2.5) + 2 * std::exp(0.5);
  expect_near(scores_of(cell, 0, 1),
              {std::exp(2.5) / second, std::exp(0.5) / second, std::exp(0.5) / second});
  EXPECT_EQ(cell.rows[0].positions, (Ints{0, 1, 2}));
  EXPECT_EQ(cell.rows[0].forced, (Ints{0, 1, 2}));
}

TEST(XAttention, MissingPositionsAreZero) {
  const Sequence sequence = one_head({2, 3}, 1, {9, 9, /**/ 2, 1, 3}, {1, 2, 0, 1, /**/ -1});
  const CellSelection cell =
      run_method(sequence, "xattention:lowering=union,block_size=2,stride=2,tau=0").cells[1];
  // a = 2: q[5] is missing, q[4] k[2n+1] / 2 with k[5] missing: (3, 1.5, 0).
  const double total = std::exp(3.0) + std::exp(1.5) + 1;
  expect_near(scores_of(cell, 0, 1), {std::exp(3.0) / total, std::exp(1.5) / total, 1 / total});
}

TEST(XAttention, BlocksAreWholeStrides) {
  for (const char* text :
       {"xattention:lowering=union,block_size=100", "xattention:lowering=union,stride=3",
        "xattention:lowering=union,block_size=8",
        "compact_attention:selector=xattention,block_size=100"}) {
    try {
      MethodSpec::parse(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage);
      EXPECT_NE(std::string(error.what()).find("multiple of stride"), std::string::npos)
          << error.what();
    }
  }
  MethodSpec::parse("xattention:lowering=union,block_size=100,stride=25");
  MethodSpec::parse("flash_prefill:lowering=union,block_size=100");
}

// Block methods that the oracle knows, without budget parameters and lowering: natively.
const std::vector<std::string>& specs() {
  static const std::vector<std::string> all = {
      "flash_prefill:block_size=8,alpha=0.3,sink_blocks=1,window_blocks=1",
      "flash_prefill:block_size=5,alpha=0.1,sink_blocks=0,window_blocks=0",
      "flash_prefill:block_size=8,alpha=0.5,sink_blocks=0,window_blocks=2,last_full_blocks=1",
      "flash_prefill:block_size=1,alpha=0.05",
      "flash_prefill:block_size=16",
      "flash_prefill",
      "xattention:block_size=8,stride=4,tau=0.6",
      "xattention:block_size=8,stride=8,tau=0.4",
      "xattention:block_size=6,stride=3,tau=0.8",
      "xattention:block_size=5,stride=1,tau=0.5",
      "xattention",
      "flex_prefill:block_size=8,gamma=0.5,tau=0,min_budget=8",
      "flex_prefill:block_size=8,gamma=0.4,tau=1,min_budget=8",
      "flex_prefill:block_size=5,gamma=0.6,tau=0.3,min_budget=12",
      "flex_prefill:block_size=3,gamma=0.2,tau=1,min_budget=0",
      "flex_prefill",
  };
  return all;
}

// Aligned, ragged, chunks within a block, several query blocks a chunk, groups of 1, 2, 3 and 4.
const std::vector<SequenceShape>& shapes() {
  static const std::vector<SequenceShape> all = [] {
    const SequenceShape aligned = {.chunk_lengths = {16, 16, 16, 7}};
    const SequenceShape ragged = {
        .num_q_heads = 6, .head_dim = 20, .chunk_lengths = {19, 30, 1, 2, 13}};
    const SequenceShape wide = {.num_kv_heads = 1, .head_dim = 8, .chunk_lengths = {3, 45, 40}};
    const SequenceShape single = {.num_kv_heads = 4, .chunk_lengths = {200, 150}};
    return std::vector<SequenceShape>{aligned, ragged, wide, single};
  }();
  return all;
}

std::string lowered(const std::string& spec, const std::string& lowering) {
  return fmt::format("{}{}lowering={}", spec, spec.find(':') == std::string::npos ? ":" : ",",
                     lowering);
}

void expect_mask(const ChunkMask& expected, const CellSelection& cell) {
  const trace::BlockMasks& choice = cell.blocks.value();
  ASSERT_EQ(choice.grid.num_query_blocks(), static_cast<int>(expected.query_blocks.size()));
  ASSERT_EQ(choice.grid.num_past_blocks(), expected.past_blocks);
  for (std::size_t h = 0; h < expected.heads.size(); ++h)
    for (std::size_t i = 0; i < expected.query_blocks.size(); ++i) {
      EXPECT_EQ(choice.grid.block_of_query_block(static_cast<int>(i)), expected.query_blocks[i]);
      const auto head = static_cast<std::int64_t>(h);
      const auto row = static_cast<std::int64_t>(i);
      for (std::size_t j = 0; j < expected.heads[h].keep[i].size(); ++j) {
        const int keep = expected.heads[h].keep[i][j];
        const std::size_t at = choice.index(head, row, static_cast<std::int64_t>(j));
        EXPECT_EQ(choice.kept[at] != 0, keep != 0) << h << " " << i << " " << j;
        EXPECT_EQ(choice.forced[at] != 0, keep == 2) << h << " " << i << " " << j;
        EXPECT_NEAR(cell.block_scores.row(head, row)[j], expected.heads[h].scores[i][j], 1e-5);
      }
    }
}

// The contract of lowering=native: a query block always reads the block that it lies in, and what
// any of them reads is selected, whether it has a vote or not.
void keep_diagonal(ChunkMask& mask) {
  for (HeadMask& head : mask.heads)
    for (std::size_t i = 0; i < mask.query_blocks.size(); ++i)
      head.keep[i][static_cast<std::size_t>(mask.query_blocks[i])] = 2;
  std::fill(mask.abstains.begin(), mask.abstains.end(), 0);
}

// `text` with one row per `heads` query heads.
void check(const Sequence& sequence, const std::string& text, int heads) {
  SCOPED_TRACE(text);
  const MethodSpec spec = MethodSpec::parse(text);
  const MethodRun run = run_method(sequence, text);
  for (std::size_t c = 0; c < run.cells.size(); ++c) {
    SCOPED_TRACE(c);
    const CellSelection& cell = run.cells[c];
    if (cell.dense_reason) {
      const bool first = sequence.chunks[c].begin == 0;
      EXPECT_EQ(cell.dense_reason, first ? DenseReason::EmptyPast : DenseReason::MethodRule);
      EXPECT_EQ(cell.dense_fallback(), first);
      EXPECT_TRUE(first || sequence.chunks[c].phase == trace::Phase::Decode);
      EXPECT_FALSE(cell.blocks.has_value());
      continue;
    }
    ChunkMask expected = block_mask(sequence, spec, static_cast<int>(c));
    EXPECT_EQ(cell.reads_masks, spec.traits().native_masks);
    if (cell.reads_masks) keep_diagonal(expected);
    expect_mask(expected, cell);
    ASSERT_EQ(static_cast<int>(cell.rows.size()) * heads, sequence.shape.num_q_heads);
    for (std::size_t row = 0; row < cell.rows.size(); ++row) {
      const SelectedRow want = lowered_row(sequence, spec, static_cast<int>(c), expected,
                                           static_cast<int>(row) * heads, heads);
      EXPECT_EQ(cell.rows[row].positions, want.positions);
      EXPECT_EQ(cell.rows[row].forced, want.forced);
      EXPECT_EQ(cell.rows[row].ties_at_cut, 0);
    }
  }
}

TEST(BlockMethods, ChooseAsTheOracle) {
  for (std::size_t i = 0; i < shapes().size(); ++i) {
    SCOPED_TRACE(i);
    const Sequence sequence = random_sequence(shapes()[i], 200 + static_cast<unsigned>(i));
    for (const std::string& spec : specs())
      check(sequence, lowered(spec, "union"), sequence.gqa_group_size());
  }
}

TEST(BlockMethods, ReadTheirNativeMasksAsTheOracle) {
  for (std::size_t i = 0; i < shapes().size(); ++i) {
    SCOPED_TRACE(i);
    const Sequence sequence = random_sequence(shapes()[i], 205 + static_cast<unsigned>(i));
    for (const std::string& spec : specs()) check(sequence, spec, 1);
  }
}

TEST(BlockMethods, FillABudgetAsTheOracle) {
  for (std::size_t i = 0; i < shapes().size(); ++i) {
    SCOPED_TRACE(i);
    const Sequence sequence = random_sequence(shapes()[i], 210 + static_cast<unsigned>(i));
    for (const std::string& spec : specs())
      for (const char* budget :
           {"budget_tokens=3", "budget_tokens=17", "budget_ratio=0.6", "budget_tokens=100000"})
        check(sequence, lowered(spec, std::string("budget,") + budget), sequence.gqa_group_size());
  }
}

// Blocks complete in earlier chunks are averaged once; one cell alone must not differ.
TEST(BlockMethods, OneCellIsTheSameAsAWholePass) {
  const Sequence sequence = random_sequence(shapes()[1], 220);
  for (const std::string& spec : specs()) {
    SCOPED_TRACE(spec);
    const MethodRun run = run_method(sequence, spec);
    for (const int chunk : {4, 2, 1}) {
      const CellSelection alone = selector_for(sequence, spec)->select(cell_of(sequence, chunk, 7));
      const CellSelection& among = run.cells[static_cast<std::size_t>(chunk)];
      EXPECT_EQ(alone.block_scores.values(), among.block_scores.values());
      EXPECT_EQ(*alone.blocks, *among.blocks);
      EXPECT_EQ(positions_of(alone), positions_of(among));
    }
  }
}

// Long enough that the work is split over threads, with sizes of blocks as in use.
TEST(BlockMethods, LongSequencesDoNotDependOnThreadsOrMemory) {
  const Sequence sequence = random_sequence(
      {.num_kv_heads = 1, .head_dim = 64, .chunk_lengths = {4000, 300}, .decoded = 0}, 221);
  const int threads = at::get_num_threads();
  for (const char* spec :
       {"flash_prefill:lowering=union,alpha=0.95,window_blocks=1",
        "xattention:lowering=union,tau=0.3", "xattention:lowering=union,stride=8,tau=0.2",
        "flex_prefill:lowering=union,gamma=0.3,min_budget=128",
        "flex_prefill:lowering=union,gamma=0.3,tau=1,min_budget=128"}) {
    at::set_num_threads(1);
    check(sequence, spec, 4);
    const CellSelection single = run_method(sequence, spec).cells[1];
    at::set_num_threads(2);
    const CellSelection pair = run_method(sequence, spec, 5).cells[1];
    EXPECT_EQ(single.block_scores.values(), pair.block_scores.values());
    EXPECT_EQ(*single.blocks, *pair.blocks);
    EXPECT_LT(kept_blocks(single, 0, 1).size(), 31U) << spec;
  }
  at::set_num_threads(threads);
}

double density(const trace::BlockMasks& choice) {
  double kept = 0;
  for (int head = 0; head < choice.num_q_heads; ++head)
    for (int i = 0; i < choice.grid.num_query_blocks(); ++i)
      for (int j = 0; j < choice.grid.num_past_blocks(); ++j)
        kept += choice.kept[choice.index(head, i, j)];
  return kept / static_cast<double>(choice.num_q_heads * choice.grid.num_query_blocks());
}

double mean_size(const CellSelection& cell, int block_size) {
  double sum = 0;
  for (const SelectedRow& row : cell.rows)
    sum += static_cast<double>(row.positions.size()) / block_size;
  return sum / static_cast<double>(cell.rows.size());
}

SequenceShape eight_heads_a_group() {
  return {.num_q_heads = 16, .head_dim = 8, .chunk_lengths = {256, 16}, .decoded = 1};
}

TEST(CompactAttention, EachUnionHoldsTheOneBefore) {
  const Sequence sequence = random_sequence(eight_heads_a_group(), 230);
  const std::string own = "block_size=4,alpha=0.8,sink_blocks=0,window_blocks=1";
  const CellSelection single =
      run_method(sequence, "compact_attention:subgroup_size=1," + own).cells[1];
  const CellSelection four = run_method(sequence, "compact_attention:" + own).cells[1];
  const CellSelection eight =
      run_method(sequence, "compact_attention:subgroup_size=8," + own).cells[1];
  EXPECT_EQ(single.rows.size(), 16U);
  EXPECT_EQ(four.rows.size(), 4U);
  EXPECT_EQ(eight.rows.size(), 2U);
  EXPECT_LE(density(four.blocks.value()), mean_size(single, 4));
  EXPECT_LT(mean_size(single, 4), mean_size(four, 4));
  EXPECT_LT(mean_size(four, 4), mean_size(eight, 4));
  for (std::size_t row = 0; row < 2; ++row) {
    Ints both;
    std::set_union(four.rows[2 * row].positions.begin(), four.rows[2 * row].positions.end(),
                   four.rows[2 * row + 1].positions.begin(), four.rows[2 * row + 1].positions.end(),
                   std::back_inserter(both));
    EXPECT_EQ(eight.rows[row].positions, both);
  }
  EXPECT_EQ(positions_of(eight),
            positions_of(run_method(sequence, "flash_prefill:lowering=union," + own).cells[1]));
}

TEST(CompactAttention, ChoosesAsTheOracle) {
  for (const char* source : {"flash_prefill,block_size=4,alpha=0.4,sink_blocks=1,window_blocks=1",
                             "flash_prefill,block_size=4,alpha=0.4,last_full_blocks=2",
                             "xattention,block_size=8,stride=4,tau=0.4"}) {
    const std::string text = std::string("compact_attention:selector=") + source;
    check(random_sequence(eight_heads_a_group(), 231), text, 4);
    check(random_sequence(eight_heads_a_group(), 232), text + ",subgroup_size=2", 2);
    check(random_sequence(shapes()[1], 233), text, 3);
    check(random_sequence(shapes()[2], 234), text, 4);
  }
}

TEST(CompactAttention, RowsAreGroupsOrSubgroups) {
  const auto layout = [](int q_heads, int kv_heads, const std::string& parameters) {
    const ModelShape shape = {2, q_heads, kv_heads, 8};
    return row_layout(MethodSpec::parse("compact_attention" + parameters).resolved(shape), shape);
  };
  EXPECT_EQ(layout(6, 2, "").axis, trace::RowAxis::KvHead);
  EXPECT_EQ(layout(6, 2, "").q_heads_per_row, 3);
  EXPECT_EQ(layout(8, 2, "").axis, trace::RowAxis::KvHead);
  EXPECT_EQ(layout(16, 2, "").axis, trace::RowAxis::Subgroup);
  EXPECT_EQ(layout(16, 2, "").q_heads_per_row, 4);
  EXPECT_EQ(layout(12, 2, ":subgroup_size=3").q_heads_per_row, 3);
  EXPECT_EQ(layout(12, 2, ":subgroup_size=6").axis, trace::RowAxis::KvHead);
}

TEST(CompactAttention, AGroupThatSubgroupsDoNotDivideIsRefused) {
  const ModelShape shape = {2, 12, 2, 8};
  const MethodSpec spec = MethodSpec::parse("compact_attention").resolved(shape);
  const auto expect_refused = [](const auto& call) {
    try {
      call();
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
      EXPECT_NE(std::string(error.what()).find("1, 2, 3, 6"), std::string::npos) << error.what();
    }
  };
  expect_refused([&] { row_layout(spec, shape); });
  expect_refused([&] { make_selector(spec, shape); });
}

}  // namespace
}  // namespace kvloupe::selection::testing
