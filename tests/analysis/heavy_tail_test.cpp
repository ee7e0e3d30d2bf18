// The mass that queries give and keys are given against plain loops; ranks, Hill's estimator and the
// half of a sum against hand-computed values.
#include "core/analysis/heavy_tail.h"

#include "core/analysis/attention_map.h"
#include "core/base/error.h"
#include "tests/replay/small_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace kvloupe::analysis {
namespace {

using replay::testing::SmallTrace;
using replay::testing::SmallTraceShape;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

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

TEST(HeavyTail, ADecodedTokenIsItsOwnMean) {
  SmallTraceShape shape;
  shape.decoded = 2;
  const SmallTrace trace(shape);
  const HeavyTail got = tail_of(trace, 0, 5, 2);
  ASSERT_EQ(got.relevance.size(), 1U);
  EXPECT_NEAR(got.relevance[0], -1, 1e-6);
  EXPECT_EQ(got.key_mass.size(), 54U);
}

TEST(HeavyTail, BrokenKeysAreAnErrorThatNamesThem) {
  SmallTraceShape shape;
  shape.broken_key_at = 3;
  const SmallTrace trace(shape);
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
