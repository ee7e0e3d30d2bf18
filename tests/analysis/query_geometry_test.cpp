// Pearson against hand-computed values; the queries of a head against plain loops.
#include "core/analysis/query_geometry.h"

#include "tests/replay/small_trace.h"

#include "core/base/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

namespace kvloupe::analysis {
namespace {

using replay::testing::SmallTrace;
using replay::testing::SmallTraceShape;

selection::MethodSpec method(const SmallTrace& trace, const std::string& text) {
  return selection::MethodSpec::parse(text).resolved(trace.session().shape());
}

TEST(Pearson, HandComputedValues) {
  EXPECT_DOUBLE_EQ(pearson({1, 2, 3}, {2, 4, 6}), 1);
  EXPECT_DOUBLE_EQ(pearson({1, 2, 3}, {3, 2, 1}), -1);
  EXPECT_DOUBLE_EQ(pearson({1, 2, 3}, {1, 3, 2}), 0.5);
  EXPECT_DOUBLE_EQ(pearson({1, 2, 3, 4}, {1, -1, -1, 1}), 0);
  EXPECT_TRUE(std::isnan(pearson({1, 1, 1}, {1, 2, 3})));
  EXPECT_TRUE(std::isnan(pearson({1, 2, 3}, {0.1f, 0.1f, 0.1f})));
  EXPECT_TRUE(std::isnan(pearson({1}, {2})));
  EXPECT_TRUE(std::isnan(pearson({}, {})));
}

// S_q by its definition: minus the cosine of the query to the mean of the chunk's raw queries.
std::vector<double> relevance_slowly(const SmallTrace& trace, int layer, int q_head, int begin,
                                     int length) {
  const int dim = trace.shape().head_dim;
  std::vector<double> mean(dim, 0);
  for (int i = 0; i < length; ++i) {
    for (int c = 0; c < dim; ++c)
      mean[c] += trace.query(layer, q_head, begin + i)[c] / static_cast<double>(length);
  }
  std::vector<double> relevance;
  for (int i = 0; i < length; ++i) {
    double dot = 0, mm = 0, qq = 0;
    for (int c = 0; c < dim; ++c) {
      const double q = trace.query(layer, q_head, begin + i)[c];
      dot += q * mean[c];
      mm += mean[c] * mean[c];
      qq += q * q;
    }
    relevance.push_back(-dot / std::sqrt(mm * qq));
  }
  return relevance;
}

double max_attention_slowly(const SmallTrace& trace, int layer, int q_head, int position) {
  double largest = 0;
  for (int j = 1; j <= position; ++j)
    largest = std::max(largest, trace.probability(layer, q_head, position, j));
  return largest;
}

TEST(QueryGeometry, AgreesWithPlainLoopsInEveryChunkAndHead) {
  const SmallTrace trace;
  int begin = 0;
  for (int chunk = 0; chunk < 4; ++chunk) {
    const int length = trace.shape().chunk_lengths[chunk];
    for (int head = 0; head < 4; ++head) {
      const QueryGeometry got =
          query_geometry(trace.session(), 1, chunk, head, method(trace, "quoka:num_queries=6"), {});
      const std::vector<double> relevance = relevance_slowly(trace, 1, head, begin, length);
      std::vector<int> order(length);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int a, int b) { return relevance[a] > relevance[b]; });
      ASSERT_EQ(got.relevance.size(), static_cast<std::size_t>(length));
      for (int i = 0; i < length; ++i) {
        EXPECT_NEAR(got.relevance[i], relevance[i], 1e-6);
        EXPECT_NEAR(got.max_attention[i], max_attention_slowly(trace, 1, head, begin + i), 1e-6);
        const bool among_best = std::find(order.begin(), order.begin() + std::min(6, length), i) !=
                                order.begin() + std::min(6, length);
        EXPECT_EQ(got.chosen[i] == 1, among_best)
            << "chunk " << chunk << " head " << head << " row " << i;
      }
    }
    begin += length;
  }
}

// The key that a query attends to most, its cosines with the query and the mean query, by plain loops;
// and Theorem 1 of QuoKA: no query is nearer to the mean query than they allow.
TEST(QueryGeometry, TheoremOneHoldsForTheKeyAttendedToMost) {
  const SmallTrace trace;
  const int begin = 32, length = 16, dim = trace.shape().head_dim;
  const auto cosine = [&](const std::vector<double>& x, const std::vector<double>& y) {
    const double xy = std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
    const double xx = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
    return xy / std::sqrt(xx * std::inner_product(y.begin(), y.end(), y.begin(), 0.0));
  };
  for (int head = 0; head < 4; ++head) {
    const QueryGeometry got = query_geometry(trace.session(), 1, 2, head, {}, {});
    std::vector<double> mean(static_cast<std::size_t>(dim), 0);
    const auto query = [&](int t) {
      const auto* values = trace.query(1, head, t);
      return std::vector<double>(values, values + dim);
    };
    for (int t = begin; t < begin + length; ++t)
      for (int c = 0; c < dim; ++c) mean[static_cast<std::size_t>(c)] += query(t)[c] / length;
    for (int i = 0; i < length; ++i) {
      int best = 1;
      for (int j = 1; j <= begin + i; ++j)
        if (trace.probability(1, head, begin + i, j) > trace.probability(1, head, begin + i, best))
          best = j;
      const auto* values = trace.key(1, head / 2, best);
      const std::vector<double> key(values, values + dim);
      EXPECT_NEAR(got.alpha[i], cosine(mean, key), 1e-5);
      EXPECT_NEAR(got.beta[i], cosine(key, query(begin + i)), 1e-5);
      EXPECT_LE(-got.relevance[i], theorem_bound(got.alpha[i], got.beta[i]) + 1e-6);
    }
  }
  // By hand: 1 + (-0.5)(0.8) - 0.125 - 0.32. It is reached where both cosines are one.
  EXPECT_DOUBLE_EQ(theorem_bound(-0.5, 0.8), 1 - 0.4 - 0.125 - 0.32);
  EXPECT_DOUBLE_EQ(theorem_bound(1, 1), 1);
}

TEST(QueryGeometry, FirstTokenGivesNoAttentionBesideTheSink) {
  const SmallTrace trace;
  EXPECT_EQ(query_geometry(trace.session(), 0, 0, 0, {}, {}).max_attention[0], 0);
  EXPECT_TRUE(std::isnan(query_geometry(trace.session(), 0, 0, 0, {}, {}).alpha[0]));
}

TEST(QueryGeometry, AllAreChosenWhenAsManyAreWantedAsThereAre) {
  const SmallTrace trace;
  const auto quoka = method(trace, "quoka:num_queries=5");
  const auto chosen = query_geometry(trace.session(), 0, 3, 0, quoka, {}).chosen;
  EXPECT_EQ(chosen, std::vector<std::uint8_t>(5, 1));
}

using Marks = std::vector<std::uint8_t>;

Marks marked(const SmallTrace& trace, const char* text, int chunk, int q_head = 1) {
  return query_geometry(trace.session(), 1, chunk, q_head, method(trace, text), {}).chosen;
}

TEST(QueryGeometry, MarksTheRowsOfTheMethodAndNotQuokas) {
  const SmallTrace trace;
  Marks even(16, 0), latest(16, 0), newest(16, 0);
  for (int i = 0; i < 3; ++i) even[(2 * i + 1) * 16 / 6] = 1;
  for (int i = 12; i < 16; ++i) latest[i] = 1;
  newest[15] = 1;
  EXPECT_EQ(marked(trace, "uniform_queries:num_queries=3", 2), even);
  EXPECT_EQ(marked(trace, "sample_attention:num_queries=3", 2), even);
  EXPECT_EQ(marked(trace, "snapkv:window=4", 2), latest);
  EXPECT_EQ(marked(trace, "tova", 2), newest);
}

TEST(QueryGeometry, MarksTheRowsThatTheGroupShares) {
  const SmallTrace trace;
  std::vector<double> mean = relevance_slowly(trace, 1, 0, 16, 16);
  const std::vector<double> other = relevance_slowly(trace, 1, 1, 16, 16);
  for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += other[i];
  std::vector<double> falling = mean;
  std::sort(falling.rbegin(), falling.rend());
  const char* shared = "quoka:num_queries=4,group_query_mode=shared_tokens";
  for (const int head : {0, 1}) {
    const Marks got = marked(trace, shared, 1, head);
    ASSERT_EQ(got.size(), 16U);
    for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(got[i] == 1, mean[i] >= falling[3]) << i;
  }
}

TEST(QueryGeometry, MarksNothingWhereAMethodLetsAllRowsSpeakOrNone) {
  const SmallTrace trace;
  for (const char* text : {"oracle", "h2o", "random", "dense", "keydiff", "loki", "aqua", "quest",
                           "flash_prefill", "streaming_llm"})
    EXPECT_TRUE(marked(trace, text, 2).empty()) << text;
  EXPECT_TRUE(query_geometry(trace.session(), 1, 2, 0, {}, {}).chosen.empty());
}

TEST(QueryGeometry, MarksNothingInDecodeWhereTheMethodRestsThere) {
  const SmallTrace trace({.decoded = 1});
  EXPECT_EQ(marked(trace, "quoka", 4), Marks{1});
  EXPECT_TRUE(marked(trace, "quoka:decode=dense", 4).empty());
  EXPECT_TRUE(marked(trace, "snapkv", 4).empty());
}

TEST(QueryGeometry, SaysWhyTheRowsOfAMethodAreNotKnown) {
  const SmallTrace trace;
  const auto minference = method(trace, "minference:config=/no/such/file.json");
  const QueryGeometry got = query_geometry(trace.session(), 1, 2, 0, minference, {});
  EXPECT_TRUE(got.chosen.empty());
  EXPECT_NE(got.chosen_missing.find("/no/such/file.json"), std::string::npos);
  EXPECT_EQ(got.relevance.size(), 16U);
}

TEST(QueryGeometry, OutsideTheTraceIsAnError) {
  const SmallTrace trace;
  EXPECT_THROW(query_geometry(trace.session(), 0, 4, 0, {}, {}), Error);
  EXPECT_THROW(query_geometry(trace.session(), 0, 0, 4, {}, {}), Error);
  EXPECT_THROW(query_geometry(trace.session(), 7, 0, 0, {}, {}), Error);
}

}  // namespace
}  // namespace kvloupe::analysis
