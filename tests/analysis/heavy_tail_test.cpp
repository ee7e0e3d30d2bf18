// The mass that queries give and keys are given against plain loops; ranks, Hill's estimator and the
// half of a sum against hand-computed values.
#include "core/analysis/heavy_tail.h"

#include "core/analysis/attention_map.h"
#include "core/base/error.h"
#include "tests/base/matchers.h"
#include "tests/replay/small_trace.h"

#include <algorithm>
#include <cmath>

namespace kvloupe::analysis {
namespace {

using replay::testing::SmallTrace;
using replay::testing::SmallTraceShape;

HeavyTail tail_of(const SmallTrace& trace, int layer, int chunk, int q_head) {
  const trace::ChunkInfo& span = trace.session().info().chunks.at(static_cast<std::size_t>(chunk));
  const Matrix rows =
      attention_rows(trace.session(), layer, q_head, span.begin, span.end(), WorkContext{});
  return heavy_tail(trace.session(), layer, chunk, q_head, rows, WorkContext{});
}

// -cos of a query to the mean of the queries [begin, begin + length).
double relevance_slowly(const SmallTrace& trace, int layer, int q_head, int begin, int length,
                        int row) {
  double dot = 0, mean_square = 0, square = 0;
  for (int c = 0; c < trace.shape().head_dim; ++c) {
    double mean = 0;
    for (int i = 0; i < length; ++i) mean += trace.query(layer, q_head, begin + i)[c];
    mean /= length;
    const double q = trace.query(layer, q_head, begin + row)[c];
    dot += q * mean;
    mean_square += mean * mean;
    square += q * q;
  }
  return -dot / std::sqrt(mean_square * square);
}

TEST(HeavyTail, AgreesWithPlainLoopsInEveryChunkAndHead) {
  const SmallTrace trace;
  int begin = 0;
  for (int chunk = 0; chunk < 4; ++chunk) {
    const int length = trace.shape().chunk_lengths[static_cast<std::size_t>(chunk)];
    for (int head = 0; head < 4; ++head) {
      const HeavyTail got = tail_of(trace, 1, chunk, head);
      ASSERT_EQ(got.relevance.size(), static_cast<std::size_t>(length));
      ASSERT_EQ(got.query_mass.size(), static_cast<std::size_t>(length));
      ASSERT_EQ(got.key_mass.size(), static_cast<std::size_t>(begin));
      for (int row = 0; row < length; ++row) {
        EXPECT_NEAR(got.relevance[static_cast<std::size_t>(row)],
                    relevance_slowly(trace, 1, head, begin, length, row), 1e-6);
        double given = 0;
        for (int key = 1; key < begin; ++key) given += trace.probability(1, head, begin + row, key);
        EXPECT_NEAR(got.query_mass[static_cast<std::size_t>(row)], given, 1e-5);
      }
      for (int key = 0; key < begin; ++key) {
        double received = 0;
        for (int row = 0; row < length; ++row)
          received += trace.probability(1, head, begin + row, key);
        EXPECT_NEAR(got.key_mass[static_cast<std::size_t>(key)], received, 1e-5);
      }
    }
    begin += length;
  }
}

double cosine_slowly(const SmallTrace& trace, int layer, int q_head, int query, int key) {
  const int group = trace.shape().num_q_heads / trace.shape().num_kv_heads;
  double dot = 0, of_query = 0, of_key = 0;
  for (int c = 0; c < trace.shape().head_dim; ++c) {
    const double q = trace.query(layer, q_head, query)[c];
    const double k = trace.key(layer, q_head / group, key)[c];
    dot += q * k;
    of_query += q * q;
    of_key += k * k;
  }
  return dot / std::sqrt(of_query * of_key);
}

TEST(HeavyTail, ScoresDeviateAsPlainLoopsSay) {
  const SmallTrace trace;
  const int begin = 32, length = trace.shape().chunk_lengths[2];
  for (int head = 0; head < 4; ++head) {
    const ScoreDeviations got = tail_of(trace, 1, 2, head).deviations;
    std::vector<double> deviations;
    for (int key = 1; key < begin; ++key) {
      double mean = 0;
      for (int row = 0; row < length; ++row)
        mean += cosine_slowly(trace, 1, head, begin + row, key) / length;
      for (int row = 0; row < length; ++row)
        deviations.push_back(cosine_slowly(trace, 1, head, begin + row, key) - mean);
    }
    double squares = 0, fourths = 0;
    for (const double d : deviations) {
      squares += d * d;
      fourths += std::pow(d, 4);
    }
    const auto count = static_cast<double>(deviations.size());
    const double sigma = std::sqrt(squares / count);
    ASSERT_EQ(got.count, static_cast<std::int64_t>(deviations.size()));
    EXPECT_NEAR(got.sigma, sigma, 1e-6);
    EXPECT_NEAR(got.excess_kurtosis, fourths / count / std::pow(sigma, 4) - 3, 1e-4);
    EXPECT_NEAR(got.lowest, *std::ranges::min_element(deviations) / sigma, 1e-4);
    EXPECT_NEAR(got.highest, *std::ranges::max_element(deviations) / sigma, 1e-4);
    const auto above = std::ranges::count_if(deviations, [&](double d) { return d > 3 * sigma; });
    EXPECT_NEAR(got.above_3_sigma, static_cast<double>(above) / count, 1.5 / count);
    // A deviation on a border may round into the next bin.
    std::vector<std::int64_t> bins(got.bins.size());
    for (const double d : deviations) {
      const auto bin = static_cast<std::int64_t>(std::floor(d / sigma / 0.25)) - got.first_bin;
      ASSERT_GE(bin, -1);
      ASSERT_LE(bin, static_cast<std::int64_t>(bins.size()));
      ++bins[static_cast<std::size_t>(
          std::clamp<std::int64_t>(bin, 0, static_cast<std::int64_t>(bins.size()) - 1))];
    }
    for (std::size_t i = 0; i < bins.size(); ++i) EXPECT_NEAR(got.bins[i], bins[i], 1) << i;
    EXPECT_GT(got.bins.size(), 8U);
  }
}

TEST(HeavyTail, EachKeysLargestAndMeanScoreAreThoseOfPlainLoops) {
  const SmallTrace trace;
  const int begin = 32, length = trace.shape().chunk_lengths[2];
  for (int head = 0; head < 4; ++head) {
    const HeavyTail got = tail_of(trace, 1, 2, head);
    ASSERT_EQ(got.largest_score.size(), 32U);
    ASSERT_EQ(got.mean_score.size(), 32U);
    EXPECT_EQ(got.largest_score[0], -INFINITY);
    for (int key = 1; key < begin; ++key) {
      double largest = -1, mean = 0;
      for (int row = 0; row < length; ++row) {
        const double score = cosine_slowly(trace, 1, head, begin + row, key);
        largest = std::max(largest, score);
        mean += score / length;
      }
      EXPECT_NEAR(got.largest_score[static_cast<std::size_t>(key)], largest, 1e-5);
      EXPECT_NEAR(got.mean_score[static_cast<std::size_t>(key)], mean, 1e-5);
    }
  }
}

TEST(HeavyTail, AKeyThatNoQuerySeesRanksLast) {
  const SmallTrace trace({.window = 8});
  const HeavyTail got = tail_of(trace, 1, 2, 0);  // queries 32 to 47 see no key before 25
  ASSERT_EQ(got.mean_score.size(), 32U);
  EXPECT_EQ(got.mean_score[24], -INFINITY);
  EXPECT_EQ(got.largest_score[24], -INFINITY);
  EXPECT_GE(got.mean_score[25], -1);
}

TEST(HeavyTail, NothingDeviatesWithoutOtherQueriesOrKeys) {
  const SmallTrace trace({.decoded = 2});
  EXPECT_TRUE(tail_of(trace, 0, 5, 2).deviations.bins.empty());  // a decoded token
  EXPECT_TRUE(tail_of(trace, 0, 0, 2).deviations.bins.empty());  // no past
}

TEST(HeavyTail, ADecodedTokenIsItsOwnMean) {
  const SmallTrace trace({.decoded = 2});
  const HeavyTail got = tail_of(trace, 0, 5, 2);
  ASSERT_EQ(got.relevance.size(), 1U);
  EXPECT_TRUE(got.largest_score.empty());
  EXPECT_NEAR(got.relevance[0], -1, 1e-6);
  EXPECT_EQ(got.key_mass.size(), 54U);
}

TEST(HeavyTail, BrokenKeysAreAnErrorThatNamesThem) {
  const SmallTrace trace({.broken_key_at = 3});
  EXPECT_THROW(tail_of(trace, 1, 2, 3), Error);
}

TEST(Rank, LargestFirstAndEqualOnesInTheirOrder) {
  const Ranking ranking = rank({2, 5, 2, -1, 5});
  EXPECT_THAT(ranking.item, ElementsAre(1, 4, 0, 2, 3));
  EXPECT_THAT(ranking.value, ElementsAre(5, 5, 2, 2, -1));
  EXPECT_THAT(ranking.rank, ElementsAre(2, 0, 3, 4, 1));
  EXPECT_THAT(rank({}).item, IsEmpty());
}

TEST(HillTail, HandComputed) {
  // n = 4, k = 2: 2 / (ln(8 / 2) + ln(4 / 2)) = 2 / (3 ln 2).
  const auto tail = hill_tail({8, 4, 2, 1});
  ASSERT_TRUE(tail);
  EXPECT_EQ(tail->top, 2);
  EXPECT_EQ(tail->base, 2);
  EXPECT_NEAR(tail->index, 2 / (3 * std::log(2.0)), 1e-12);
  EXPECT_NEAR(tail->at(3), 2, 1e-12);  // rank k + 1
  EXPECT_NEAR(tail->at(1), 2 * std::pow(3.0, 1.5 * std::log(2.0)), 1e-12);
}

// The quantiles of a Pareto law: its index comes back, whatever the unit.
TEST(HillTail, FindsTheIndexOfAParetoLaw) {
  for (const double index : {0.7, 1.5, 3.0})
    for (const double unit : {1e-6, 1.0}) {
      std::vector<double> falling;
      for (int r = 1; r <= 40000; ++r) falling.push_back(unit * std::pow(r / 40000.5, -1 / index));
      const auto tail = hill_tail(falling);
      ASSERT_TRUE(tail);
      EXPECT_EQ(tail->top, 200);
      EXPECT_NEAR(tail->index, index, 0.02 * index);
      EXPECT_NEAR(tail->at(10) / falling[9], 1, 0.1);
    }
}

TEST(HillTail, IsNotDefinedWithoutATail) {
  EXPECT_FALSE(hill_tail({}));
  EXPECT_FALSE(hill_tail({3}));
  EXPECT_FALSE(hill_tail({3, 3, 3, 3, 1}));  // the three largest of five are equal
  EXPECT_FALSE(hill_tail({3, 0, 0, 0}));
  EXPECT_TRUE(hill_tail({3, 1}));
}

TEST(CountHoldingHalf, HandComputed) {
  EXPECT_EQ(count_holding_half({}), 0);
  EXPECT_EQ(count_holding_half({0, 0}), 0);
  EXPECT_EQ(count_holding_half({1}), 1);
  EXPECT_EQ(count_holding_half({5, 3, 2}), 1);  // exactly half
  EXPECT_EQ(count_holding_half({4, 3, 2}), 2);
  EXPECT_EQ(count_holding_half({1, 1, 1, 1, 1}), 3);
}

}  // namespace
}  // namespace kvloupe::analysis
