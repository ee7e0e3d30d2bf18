// What is particular to one method: hand-computed examples and the corner rules of the
// papers.
#include "core/selection/cell_rows.h"
#include "core/selection/eviction/pooling.h"
#include "core/selection/operators/kernels.h"
#include "tests/selection/sequences.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <set>

namespace kvloupe::selection::testing {
namespace {

using Ints = std::vector<std::int32_t>;

std::vector<std::vector<Ints>> sets(const MethodRun& run) {
  std::vector<std::vector<Ints>> result;
  for (const CellSelection& cell : run.cells) result.push_back(positions_of(cell));
  return result;
}

// One head, dimension 2, a past of four keys and a chunk of three queries.
Sequence hand_made() {
  Sequence sequence = one_head_sequence(2, {4, 3}, 1);
  //              past: not scored as queries ...      chunk
  sequence.q = {1, 0, 1, 0, 1, 0, 1, 0, /**/ 1, 0, 1, 0.5F, -1, 2};
  sequence.k = {2, 0, 0, 3, -1, 0, 0, -5, /**/ 1, 1, 1, 1, 1, 1};
  return sequence;
}

TEST(Quoka, HandMadeExample) {
  // Mean query (1/3, 2.5/3); cosines to it: 0.371, 0.755, 0.664 for rows 0, 1, 2, so row 0 is
  // chosen. Its cosines to the keys (2,0) (0,3) (-1,0) (0,-5) are 1, 0, -1, 0.
  EXPECT_EQ(sets(run_method(hand_made(), "quoka:budget_tokens=1,num_queries=1"))[1][0], Ints{0});
  EXPECT_EQ(sets(run_method(hand_made(), "quoka:budget_tokens=2,num_queries=1"))[1][0],
            (Ints{0, 1}));  // keys 1 and 3 tie at 0: the older stays
  const MethodRun tie = run_method(hand_made(), "quoka:budget_tokens=2,num_queries=1");
  EXPECT_EQ(tie.cells[1].rows[0].ties_at_cut, 1);
  // All rows: row 2 = (-1, 2)/sqrt(5) gives 0.894 to key 1 and 0.447 to key 2; key 3 gets 0 at
  // best.
  EXPECT_EQ(sets(run_method(hand_made(), "quoka:budget_tokens=3,num_queries=3"))[1][0],
            (Ints{0, 1, 2}));
  // Dot products with row 0 = (1, 0): 2, 0, -1, 0.
  EXPECT_EQ(sets(run_method(hand_made(), "quoka:budget_tokens=3,num_queries=1,metric=dot"))[1][0],
            (Ints{0, 1, 3}));
}

TEST(Keydiff, HandMadeExample) {
  // Unit keys (1,0) (0,1) (-1,0) (0,-1) and three times (0.707,0.707): the mean points to (1,1), so
  // keys 2 and 3 differ most (-cos 0.707), keys 0 and 1 less (-0.707).
  EXPECT_EQ(sets(run_method(hand_made(), "keydiff:budget_tokens=2,state=select"))[1][0],
            (Ints{2, 3}));
  EXPECT_EQ(sets(run_method(hand_made(), "keydiff:budget_tokens=3,state=select"))[1][0],
            (Ints{0, 2, 3}));
}

TEST(Quoka, AllRowsChosenIsUniformQueriesWithAllRows) {
  const Sequence sequence = random_sequence({}, 21);
  EXPECT_EQ(sets(run_method(sequence, "quoka:budget_tokens=9,num_queries=64")),
            sets(run_method(sequence, "uniform_queries:budget_tokens=9,num_queries=64")));
}

TEST(Quoka, GroupModesAgreeWithoutGroups) {
  const Sequence sequence = random_sequence({.num_kv_heads = 4}, 22);
  const auto expected = sets(run_method(sequence, "quoka:budget_tokens=9,num_queries=4"));
  for (const char* mode : {"shared_tokens", "post_agg"})
    EXPECT_EQ(sets(run_method(sequence, std::string("quoka:budget_tokens=9,num_queries=4,") +
                                            "group_query_mode=" + mode)),
              expected);
}

TEST(Quoka, OrderOfTheQueriesDoesNotMatter) {
  const Sequence sequence = random_sequence({}, 23);
  Sequence shuffled = sequence;
  const int dim = shuffled.shape.head_dim;
  for (int head = 0; head < shuffled.shape.num_q_heads; ++head)
    for (const trace::ChunkInfo& chunk : shuffled.chunks)
      for (int i = 0; i < chunk.length / 2; ++i)
        std::swap_ranges(const_cast<float*>(shuffled.query(head, chunk.begin + i)),
                         const_cast<float*>(shuffled.query(head, chunk.begin + i)) + dim,
                         const_cast<float*>(shuffled.query(head, chunk.end() - 1 - i)));
  EXPECT_EQ(sets(run_method(shuffled, "quoka:budget_tokens=9,num_queries=4")),
            sets(run_method(sequence, "quoka:budget_tokens=9,num_queries=4")));
}

TEST(Quoka, EqualQueriesMakeTheirNumberIrrelevant) {
  Sequence sequence = random_sequence({}, 24);
  // With equal queries any chosen rows give the same scores, however many they are.
  for (int head = 0; head < sequence.shape.num_q_heads; ++head)
    for (int position = 0; position < sequence.num_tokens(); ++position)
      std::copy_n(sequence.query(head, 0), sequence.shape.head_dim,
                  const_cast<float*>(sequence.query(head, position)));
  EXPECT_EQ(sets(run_method(sequence, "quoka:budget_tokens=9,num_queries=1")),
            sets(run_method(sequence, "quoka:budget_tokens=9,num_queries=5")));
}

TEST(Quoka, DenseDecodeIsAMethodRule) {
  const Sequence sequence = random_sequence({}, 25);
  const MethodRun run = run_method(sequence, "quoka:budget_tokens=9,decode=dense");
  const CellSelection& prefill = run.cells[3];
  const CellSelection& decode = run.cells[4];
  EXPECT_FALSE(prefill.dense_reason.has_value());
  EXPECT_EQ(decode.dense_reason, DenseReason::MethodRule);
  EXPECT_FALSE(decode.dense_fallback());
  EXPECT_EQ(static_cast<int>(decode.rows[0].positions.size()), sequence.chunks[4].begin);
  // The fallback comes first where it holds.
  const MethodRun all = run_method(sequence, "quoka:budget_tokens=900,decode=dense");
  EXPECT_EQ(all.cells[4].dense_reason, DenseReason::FitsBudget);
}

TEST(Dense, IsAMethodRuleButForTheFirstChunk) {
  const Sequence sequence = random_sequence({}, 26);
  const MethodRun run = run_method(sequence, "dense");
  EXPECT_EQ(run.cells[0].dense_reason, DenseReason::EmptyPast);
  EXPECT_TRUE(run.cells[0].dense_fallback());
  EXPECT_EQ(run.cells[1].dense_reason, DenseReason::MethodRule);
  EXPECT_FALSE(run.cells[1].dense_fallback());
  EXPECT_FALSE(run.cells[1].budget_tokens.has_value());
}

TEST(StreamingLlm, PositionsAreAFunctionOfThePast) {
  const Sequence sequence = random_sequence({}, 27);
  const MethodRun run = run_method(sequence, "streaming_llm:budget_tokens=10,sink_tokens=4");
  for (std::size_t c = 1; c < run.cells.size(); ++c) {
    const int past = sequence.chunks[c].begin;
    const Ints expected = {0, 1, 2, 3, past - 6, past - 5, past - 4, past - 3, past - 2, past - 1};
    EXPECT_EQ(run.cells[c].rows[0].positions, expected);
    EXPECT_EQ(run.cells[c].rows[0].forced, expected);
  }
  EXPECT_EQ(sets(run_method(sequence, "streaming_llm:budget_tokens=3,sink_tokens=4"))[2][0],
            (Ints{0, 1, 2}));
}

TEST(Snapkv, ABudgetWithinTheWindowKeepsTheNewest) {
  const Sequence sequence = random_sequence({}, 28);
  const MethodRun run = run_method(sequence, "snapkv:budget_tokens=5,window=8");
  EXPECT_EQ(run.cells[2].rows[0].positions, (Ints{27, 28, 29, 30, 31}));
  EXPECT_EQ(run.cells[2].rows[0].forced, (Ints{27, 28, 29, 30, 31}));
}

TEST(Snapkv, DecodedKeysJoinTheSurvivors) {
  const Sequence sequence = random_sequence({}, 29);
  for (const char* spec : {"snapkv:budget_tokens=12,window=4", "keydiff:budget_tokens=12"}) {
    const MethodRun run = run_method(sequence, spec);
    Ints expected = run.cells[4].rows[1].positions;  // what the prefill left
    EXPECT_EQ(expected.size(), 12U);
    for (int position = sequence.chunks[4].begin; position < sequence.num_tokens(); ++position)
      expected.push_back(position);
    EXPECT_EQ(run.alive[1], expected);
  }
}

std::vector<float> pooled(const std::vector<float>& values, std::int64_t kernel, PoolKind kind) {
  return on_host<float>(pool_same(at::tensor(values, at::kFloat).unsqueeze(0), kernel, kind));
}

TEST(Pooling, AverageCountsThePadding) {
  const std::vector<float> ends = {1, 0, 0, 0, 0, 0, 0, 1};
  const std::vector<float> expected = {.2F, .2F, .2F, 0, 0, .2F, .2F, .2F};
  EXPECT_EQ(pooled(ends, 5, PoolKind::Average), expected);
  EXPECT_EQ(pooled(ends, 1, PoolKind::Average), ends);
}

TEST(Pooling, MaximumIgnoresThePadding) {
  EXPECT_EQ(pooled({-3, -2, -5, -4}, 3, PoolKind::Max), (std::vector<float>{-2, -2, -2, -4}));
  EXPECT_EQ(pooled({1, 2}, 7, PoolKind::Max), (std::vector<float>{2, 2}));
}

// Philox 4x32-10 from its definition; the first number of the generator's published test vectors.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c, std::uint64_t seed) {
  std::uint32_t k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
    const std::uint64_t a = 0xD2511F53ULL * c[0], b = 0xCD9E8D57ULL * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(a)};
  }
  return c;
}

TEST(Random, KeepsTheLargestPhiloxWords) {
  ASSERT_EQ(philox({0, 0, 0, 0}, 0),
            (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const Sequence sequence = random_sequence({}, 30);
  const MethodRun run = run_method(sequence, "random:budget_tokens=9,seed=4294967299");
  for (std::uint32_t head = 0; head < 2; ++head) {
    std::vector<std::pair<std::uint64_t, std::int32_t>> draws;
    for (std::int32_t position = 0; position < 32; ++position) {
      const auto words = philox({static_cast<std::uint32_t>(position), 2, 0, head}, 4294967299ULL);
      draws.emplace_back(std::uint64_t{words[0]} << 32 | words[1], position);
    }
    std::sort(draws.rbegin(), draws.rend());
    Ints expected;
    for (int i = 0; i < 9; ++i) expected.push_back(draws[static_cast<std::size_t>(i)].second);
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(run.cells[2].rows[head].positions, expected);
  }
}

TEST(Random, DrawsAnewForEverySeedLayerHeadAndChunk) {
  SequenceShape shape = {.chunk_lengths = {200, 1, 1}, .decoded = 0};
  std::set<Ints> seen;
  int draws = 0;
  for (const int layer : {0, 1, 2})
    for (const char* spec : {"random:budget_tokens=20", "random:budget_tokens=20,seed=1"}) {
      shape.layer = layer;
      const MethodRun run = run_method(random_sequence(shape, 31), spec);
      for (std::size_t chunk : {1U, 2U})
        for (const SelectedRow& row : run.cells[chunk].rows) {
          seen.insert(row.positions);
          ++draws;
        }
    }
  EXPECT_EQ(static_cast<int>(seen.size()), draws);
}

TEST(Random, IsUniform) {
  const MethodRun run = run_method(random_sequence({.num_q_heads = 64,
                                                    .num_kv_heads = 64,
                                                    .head_dim = 2,
                                                    .chunk_lengths = {50, 1, 1, 1, 1},
                                                    .decoded = 0},
                                                   32),
                                   "random:budget_tokens=10");
  std::vector<int> counts(50, 0);
  for (std::size_t chunk = 1; chunk < run.cells.size(); ++chunk)
    for (const SelectedRow& row : run.cells[chunk].rows)
      for (const std::int32_t position : row.positions)
        if (position < 50) ++counts[static_cast<std::size_t>(position)];
  // 256 draws of 10 of about 50: 50 a position, standard deviation 6.4.
  for (const int count : counts) EXPECT_NEAR(count, 50, 32);
}

// Long enough that the work is split over threads and tiles.
TEST(LongSequences, DoNotDependOnThreadsOrMemory) {
  const Sequence sequence =
      random_sequence({.head_dim = 64, .chunk_lengths = {4097, 128, 1}, .decoded = 0}, 34);
  const int threads = at::get_num_threads();
  for (const char* spec :
       {"quoka:budget_tokens=99", "quoka:budget_tokens=99,group_query_mode=post_agg",
        "snapkv:budget_tokens=99", "snapkv:budget_tokens=99,state=select",
        "keydiff:budget_tokens=99", "h2o:budget_tokens=99", "tova:budget_tokens=99",
        "infinipot:budget_tokens=99", "sample_attention:budget_tokens=99", "sparq:budget_tokens=99",
        "sparq:budget_tokens=99,agg=prob_mean", "loki:budget_tokens=99",
        "loki:budget_tokens=99,agg=prob_mean",
        "tidal_decode:budget_tokens=99,first_layer=0,sel_layers=set",
        "less_is_more:budget_tokens=99,first_layer=0,sel_layers=set", "oracle:budget_tokens=99",
        "oracle:budget_tokens=99,reduce=max"}) {
    SCOPED_TRACE(spec);
    at::set_num_threads(1);
    const MethodRun single = run_method(sequence, spec);
    at::set_num_threads(2);
    const MethodRun pair = run_method(sequence, spec, 5);
    EXPECT_EQ(sets(single), sets(pair));
    EXPECT_EQ(single.alive, pair.alive);
    EXPECT_EQ(single.cells[1].rows[0].positions.size(), 99U);
  }
  at::set_num_threads(threads);
}

TEST(Kernels, AgreeWithPlainLoops) {
  std::mt19937 random(33);
  std::normal_distribution<float> normal;
  for (const int dim : {1, 8, 20, 64, 128})
    for (const int num_rows : {1, 5, 16, 33}) {
      const int num_keys = 29;
      std::vector<float> rows(static_cast<std::size_t>(num_rows * dim));
      std::vector<float> keys(static_cast<std::size_t>(num_keys * dim));
      for (auto* values : {&rows, &keys})
        for (float& value : *values) value = normal(random);
      std::vector<const float*> pointers;
      std::vector<std::int64_t> visible;
      for (int r = 0; r < num_rows; ++r) {
        pointers.push_back(rows.data() + r * dim);
        visible.push_back(1 + (r * 7) % num_keys);
      }
      const PackedRows packed = pack_rows(pointers, dim);
      std::vector<float> best(num_keys), lengths(num_keys), dots(num_keys), sums(num_keys, 0.0F),
          largest(num_keys, 0.0F);
      max_dot_products(packed, keys.data(), num_keys, best.data());
      norms(keys.data(), num_keys, dim, lengths.data());
      dot_products(rows.data(), keys.data(), num_keys, dim, dots.data());
      reduce_probabilities(packed, visible, keys.data(), num_keys, 0.3, ColumnReduce::Sum,
                           sums.data());
      reduce_probabilities(packed, visible, keys.data(), num_keys, 0.3, ColumnReduce::Max,
                           largest.data());
      std::vector<std::vector<double>> p(static_cast<std::size_t>(num_rows));
      std::vector<std::vector<double>> z = p;
      for (int r = 0; r < num_rows; ++r) {
        double total = 0;
        for (int j = 0; j < num_keys; ++j) {
          double sum = 0;
          for (int i = 0; i < dim; ++i)
            sum += static_cast<double>(rows[r * dim + i]) * static_cast<double>(keys[j * dim + i]);
          z[r].push_back(sum);
          p[r].push_back(j < visible[r] ? std::exp(0.3 * sum) : 0.0);
          total += p[r].back();
        }
        for (double& value : p[r]) value /= total;
      }
      for (int j = 0; j < num_keys; ++j) {
        double norm = 0, most = -1e9, sum = 0, most_p = 0;
        for (int i = 0; i < dim; ++i)
          norm += static_cast<double>(keys[j * dim + i]) * static_cast<double>(keys[j * dim + i]);
        for (int r = 0; r < num_rows; ++r) {
          most = std::max(most, z[r][j]);
          sum += p[r][j];
          most_p = std::max(most_p, p[r][j]);
        }
        EXPECT_NEAR(best[j], most, 1e-4);
        EXPECT_NEAR(lengths[j], std::sqrt(norm), 1e-5 * (1 + norm));
        EXPECT_NEAR(dots[j], z[0][j], 1e-4);
        EXPECT_NEAR(sums[j], sum, 1e-5);
        EXPECT_NEAR(largest[j], most_p, 1e-5);
      }
    }
}

}  // namespace
}  // namespace kvloupe::selection::testing
