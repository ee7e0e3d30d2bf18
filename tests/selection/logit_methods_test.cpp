// SampleAttention, SparQ and Loki: hand-computed examples, and what must not change their choice.
#include "core/base/error.h"
#include "core/selection/cell_rows.h"
#include "core/selection/logit_scoring.h"
#include "tests/selection/oracle_loops.h"
#include "tests/selection/sequences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace kvloupe::selection::testing {
namespace {

using Ints = std::vector<std::int32_t>;

// One head; `past` keys and one row each of the chunk's queries and keys.
Sequence one_head(int dim, const std::vector<std::vector<float>>& past_keys,
                  const std::vector<std::vector<float>>& queries,
                  const std::vector<std::vector<float>>& chunk_keys) {
  Sequence sequence = one_head_sequence(
      dim, {static_cast<int>(past_keys.size()), static_cast<int>(queries.size())}, 1);
  sequence.k.clear();
  for (const auto* keys : {&past_keys, &chunk_keys})
    for (const auto& key : *keys) sequence.k.insert(sequence.k.end(), key.begin(), key.end());
  auto out = sequence.q.begin() + static_cast<std::ptrdiff_t>(past_keys.size()) * dim;
  for (const auto& query : queries) out = std::copy(query.begin(), query.end(), out);
  return sequence;
}

const SelectedRow& row_of(const MethodRun& run) { return run.cells[1].rows[0]; }

// With one channel the softmax scale is 1: the past's probabilities are as 8, 4, 2, 1.
Sequence halves() {
  return one_head(1, {{std::log(2.0F)}, {0}, {std::log(8.0F)}, {std::log(4.0F)}}, {{1}}, {{0}});
}

// The attention that a set captures of one KV head, over the group's heads and the chunk's rows.
double captured(const Sequence& s, const trace::ChunkInfo& span, int kv_head, unsigned set) {
  double mass = 0;
  for (int head = kv_head * s.gqa_group_size(); head < (kv_head + 1) * s.gqa_group_size(); ++head)
    for (int query = span.begin; query < span.end(); ++query) {
      const std::vector<double> p = softmax_row(s, head, query, range(0, span.end()));
      for (int key = 0; key < span.end(); ++key)
        if (set >> key & 1U) mass += p[static_cast<std::size_t>(key)];
    }
  return mass;
}

TEST(Oracle, NoSetOfItsSizeCapturesMore) {
  const SequenceShape shape = {
      .num_q_heads = 4, .head_dim = 8, .chunk_lengths = {9, 3}, .decoded = 0};
  const Sequence sequence = random_sequence(shape, 61);
  const trace::ChunkInfo& span = sequence.chunks[1];
  for (const bool all : {false, true}) {
    const MethodRun run = run_method(
        sequence, all ? "oracle:budget_tokens=4,budget_scope=all" : "oracle:budget_tokens=4");
    const int candidates = all ? 12 : 9;
    for (int head = 0; head < shape.num_kv_heads; ++head) {
      unsigned kept = 0;
      for (const std::int32_t key : run.cells[1].rows[static_cast<std::size_t>(head)].positions)
        kept |= 1U << key;
      ASSERT_EQ(std::popcount(kept), 4);
      const double most = captured(sequence, span, head, kept);
      for (unsigned set = 0; set < 1U << candidates; ++set)
        if (std::popcount(set) == 4 && set != kept) {
          EXPECT_LT(captured(sequence, span, head, set), most) << set;
        }
    }
  }
}

TEST(SampleAttention, CoverageKeepsTheSmallestPrefix) {
  const auto kept = [](const std::string& options) {
    return row_of(run_method(halves(), "sample_attention:mode=coverage," + options)).positions;
  };
  EXPECT_EQ(kept("budget_tokens=3,coverage=0.5"), (Ints{2}));
  EXPECT_EQ(kept("budget_tokens=3,coverage=0.54"), (Ints{2, 3}));
  EXPECT_EQ(kept("budget_tokens=3,coverage=0.79"), (Ints{2, 3}));
  EXPECT_EQ(kept("budget_tokens=3,coverage=0.81"), (Ints{0, 2, 3}));
  EXPECT_EQ(kept("budget_tokens=2,coverage=0.99"), (Ints{2, 3}));
  EXPECT_EQ(kept("budget_tokens=3,coverage=1"), (Ints{0, 2, 3}));
  EXPECT_EQ(row_of(run_method(halves(), "sample_attention:budget_tokens=3,coverage=0.5")).positions,
            (Ints{0, 2, 3}));
}

TEST(SampleAttention, CoverageOfEqualScoresIsTheirNumber) {
  const Sequence sequence =
      one_head(1, std::vector<std::vector<float>>(20, {0}), {{1}, {1}}, {{0}, {0}});
  // 0.55 * 20 is a little more than 11 in floating point.
  const MethodRun run =
      run_method(sequence, "sample_attention:budget_tokens=19,mode=coverage,coverage=0.55");
  EXPECT_EQ(row_of(run).positions, (Ints{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(row_of(run).ties_at_cut, 9);
}

TEST(SampleAttention, CoverageOfNothingKeepsOneKey) {
  const Sequence sequence = one_head(1, {{0}, {0}, {0}}, {{1}}, {{1000}});
  const MethodRun run = run_method(sequence, "sample_attention:budget_tokens=2,mode=coverage");
  EXPECT_EQ(row_of(run).positions, (Ints{0}));
}

TEST(SampleAttention, SeesTheSampledRowsOnly) {
  const SequenceShape shape = {.chunk_lengths = {24, 12}, .decoded = 0};
  const Sequence sequence = random_sequence(shape, 41);
  const std::string spec = "sample_attention:budget_tokens=7,num_queries=3";
  const auto expected = positions_of(run_method(sequence, spec));
  // Rows floor((2i+1) 12 / 6) = 2, 6, 10.
  const auto with_other = [&](int row) {
    Sequence other = sequence;
    for (int head = 0; head < shape.num_q_heads; ++head)
      for (int i = 0; i < shape.head_dim; ++i)
        const_cast<float*>(other.query(head, 24 + row))[i] *= -3;
    return positions_of(run_method(other, spec));
  };
  for (int row = 0; row < 12; ++row)
    EXPECT_EQ(with_other(row) != expected, row == 2 || row == 6 || row == 10) << row;
}

TEST(Sparq, HandMadeExample) {
  // Sums of |q|: 4, 5, 3, so one channel is channel 1 and two are 0 and 1.
  const Sequence sequence = one_head(3, {{9, 1, 0}, {0, 2, 9}, {1, 3, 0}, {-5, 4, 0}},
                                     {{1, 2, -3}, {-3, 3, 0}}, {{0, 0, 0}, {0, 0, 0}});
  const auto kept = [&](const std::string& options) {
    return row_of(run_method(sequence, "sparq:" + options)).positions;
  };
  // Channel 1 of both queries is positive: keys by their channel 1.
  EXPECT_EQ(kept("budget_tokens=2,num_channels=1"), (Ints{2, 3}));
  // Shares of |q| in channels 0 and 1 are 3/6 and 6/6: rows (1,2) sqrt(2) and (-3,3) add up to
  // (-1.586, 5.828); with the keys -8.44, 11.66, 15.90, 31.24.
  EXPECT_EQ(kept("budget_tokens=1,num_channels=2"), (Ints{3}));
  EXPECT_EQ(kept("budget_tokens=3,num_channels=2"), (Ints{1, 2, 3}));
  // Without the shares the rows would add up to (-2, 5); with all channels to (-2, 5, -3): keys
  // -13, -17, 13, 30.
  EXPECT_EQ(kept("budget_tokens=3,num_channels=3"), (Ints{0, 2, 3}));
}

TEST(Sparq, TheShareOfEachQueryCounts) {
  // Sums of |q|: 9 and 4, so channel 0. It holds half of the first query and all of the second:
  // -4 sqrt(2) + 5 < 0, and the smallest key wins. The plain sum would be 1 and the largest win.
  const Sequence sequence =
      one_head(2, {{1, 0}, {2, 0}, {3, 0}}, {{-4, 4}, {5, 0}}, {{0, 0}, {0, 0}});
  EXPECT_EQ(row_of(run_method(sequence, "sparq:budget_tokens=1,num_channels=1")).positions,
            (Ints{0}));
}

TEST(Sparq, AQueryWithNothingInTheChannelsHasNoLogits) {
  const Sequence sequence =
      one_head(2, {{1, 0}, {2, 0}, {3, 5}}, {{0, 3}, {9, 0}, {-8, 0.5F}}, {{0, 0}, {0, 0}, {0, 0}});
  // Channel 0; 0 of the first query, 9, and -8 sqrt(8.5/8) = -8.25.
  EXPECT_EQ(row_of(run_method(sequence, "sparq:budget_tokens=1,num_channels=1")).positions,
            (Ints{2}));
}

TEST(Sparq, EqualChannelsGoToTheLowest) {
  const Sequence sequence = one_head(2, {{1, 5}, {2, 0}, {0, 9}}, {{1, 1}}, {{0, 0}});
  EXPECT_EQ(row_of(run_method(sequence, "sparq:budget_tokens=1,num_channels=1")).positions,
            (Ints{1}));
}

TEST(Sparq, QueriesOfZeroHaveNoOpinion) {
  const Sequence sequence =
      one_head(2, {{1, 5}, {2, 0}, {4, 9}}, {{0, 0}, {1, 0}}, {{0, 0}, {0, 0}});
  for (const char* agg : {"logit_mean", "prob_mean"})
    EXPECT_EQ(
        row_of(run_method(sequence, std::string("sparq:budget_tokens=1,num_channels=1,agg=") + agg))
            .positions,
        (Ints{2}));
}

// The logits that approximations approach: means of the exact ones (tidal_decode's where it
// chooses), means of the exact probabilities (sample_attention's with all rows).
void expect_exact(const Sequence& sequence, const std::string& spec, const std::string& exact) {
  const MethodRun run = run_method(sequence, spec + ",budget_tokens=9");
  const MethodSpec reference =
      MethodSpec::parse(exact + ",budget_tokens=9").resolved(sequence.model());
  for (std::size_t chunk = 1; chunk < run.cells.size(); ++chunk)
    for (std::size_t head = 0; head < run.cells[chunk].rows.size(); ++head)
      EXPECT_EQ(defect(visibility_scores(sequence, reference, static_cast<int>(chunk),
                                         static_cast<int>(head), sequence.chunks[chunk].begin),
                       run.cells[chunk].rows[head].positions, 9),
                "")
          << spec << " chunk " << chunk;
}

TEST(Approximations, WithAllChannelsAreExact) {
  const Sequence sequence = random_sequence({.layer = 2}, 42);
  for (const char* method : {"sparq", "loki"}) {
    const std::string all = std::string(method) + ":num_channels=16";
    expect_exact(sequence, all, "tidal_decode:first_layer=2");
    // tau is sqrt(head_dim): any other would sharpen or flatten the softmax.
    expect_exact(sequence, all + ",agg=prob_mean", "sample_attention:num_queries=64");
  }
}

TEST(Approximations, MoreChannelsThanAHeadHasAreRefused) {
  const Sequence sequence = random_sequence({}, 43);
  for (const char* method : {"sparq", "loki"}) {
    try {
      run_method(sequence, std::string(method) + ":num_channels=17");
      FAIL() << method;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
      EXPECT_NE(std::string(error.what()).find("has 16"), std::string::npos) << error.what();
    }
  }
}

// A constant added to all keys adds the same to all logits of a query: whether keys were centred
// does not matter.
TEST(Loki, TheMeanOfTheKeysDoesNotMatter) {
  const Sequence sequence = random_sequence({}, 44);
  Sequence shifted = sequence;
  for (int head = 0; head < sequence.shape.num_kv_heads; ++head)
    for (int position = 0; position < sequence.num_tokens(); ++position)
      for (int i = 0; i < sequence.shape.head_dim; ++i)
        const_cast<float*>(shifted.key(head, position))[i] += 0.25F * static_cast<float>(i % 3);
  const std::string spec = "loki:budget_tokens=9,num_channels=3";
  EXPECT_EQ(positions_of(run_method(shifted, spec)), positions_of(run_method(sequence, spec)));
}

// The subspace counts, not the directions that span it.
TEST(Loki, SignsAndTurnsInsideTheSubspaceDoNotMatter) {
  const Sequence sequence = random_sequence({}, 45);
  const auto changed = [&](const auto& change) {
    Sequence other = sequence;
    std::vector<float>& vectors = other.basis.layers.at(0).vectors;
    for (std::size_t row = 0; row < vectors.size(); row += 16) change(vectors.data() + row);
    return other;
  };
  const Sequence flipped = changed([](float* row) { row[1] = -row[1]; });
  const Sequence turned = changed([](float* row) {
    const float a = row[0], b = row[2];
    row[0] = 0.6F * a + 0.8F * b;
    row[2] = 0.6F * b - 0.8F * a;
  });
  const Sequence mixed = changed([](float* row) { std::swap(row[0], row[9]); });
  for (const char* agg : {"logit_mean", "prob_mean"}) {
    const std::string spec = std::string("loki:budget_tokens=9,num_channels=4,agg=") + agg;
    const auto expected = positions_of(run_method(sequence, spec));
    EXPECT_EQ(positions_of(run_method(flipped, spec)), expected);
    EXPECT_EQ(positions_of(run_method(turned, spec)), expected);
    EXPECT_NE(positions_of(run_method(mixed, spec)), expected);  // another subspace
  }
}

TEST(Loki, ABasisWithoutTheLayerIsRefused) {
  Sequence sequence = random_sequence({}, 46);
  sequence.basis.layers.clear();
  EXPECT_THROW(run_method(sequence, "loki:budget_tokens=9"), Error);
}

TEST(LogitScores, TheMeanOfLogitsIsTheLogitOfTheMean) {
  const Sequence sequence = random_sequence({}, 47);
  const Cell cell = cell_of(sequence, 2);
  const auto scores = on_host<float>(logit_scores(cell, cell.k, mean_queries(cell), cell.kv_len()));
  const trace::ChunkInfo& span = sequence.chunks[2];
  for (int kv_head = 0; kv_head < 2; ++kv_head)
    for (int key = 0; key < span.end(); ++key) {
      double sum = 0;
      for (int head = 2 * kv_head; head < 2 * kv_head + 2; ++head)
        for (int query = span.begin; query < span.end(); ++query)
          for (int i = 0; i < 16; ++i)
            sum += sequence.scale() * static_cast<double>(sequence.query(head, query)[i]) *
                   static_cast<double>(sequence.key(kv_head, key)[i]);
      EXPECT_NEAR(scores[static_cast<std::size_t>(kv_head * span.end() + key)],
                  sum / (2 * span.length), 1e-5);
    }
}

}  // namespace
}  // namespace kvloupe::selection::testing
