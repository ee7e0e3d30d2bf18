// PCA and Pearson against hand-computed values; the geometry of a head against plain loops.
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

// Points whose covariance is known: +-2 along (1, 1)/sqrt2 and +-1 along (1, -1)/sqrt2, around (3,
// 5). Variance 4 * 2/4 = 2 and 1 * 2/4 = 0.5.
std::vector<float> cross_of_points() {
  const auto s = static_cast<float>(std::sqrt(0.5));
  return {3 + 2 * s, 5 + 2 * s, 3 - 2 * s, 5 - 2 * s, 3 + s, 5 - s, 3 - s, 5 + s};
}

TEST(FitPca, KnownCovariance) {
  const Pca pca = fit_pca(cross_of_points(), 2, 2);
  EXPECT_NEAR(pca.mean[0], 3, 1e-6);
  EXPECT_NEAR(pca.mean[1], 5, 1e-6);
  EXPECT_NEAR(pca.explained[0], 0.8, 1e-6);
  EXPECT_NEAR(pca.explained[1], 0.2, 1e-6);
  const double s = std::sqrt(0.5);
  EXPECT_NEAR(pca.axes[0], s, 1e-6);
  EXPECT_NEAR(pca.axes[1], s, 1e-6);
  // The larger entry of the second axis is positive; both are as large here, so only |.| is fixed.
  EXPECT_NEAR(std::abs(pca.axes[2]), s, 1e-6);
  EXPECT_NEAR(pca.axes[2], -pca.axes[3], 1e-6);
  const std::vector<float> projected = project(pca, cross_of_points());
  EXPECT_NEAR(projected[0], 2, 1e-6);
  EXPECT_NEAR(projected[1], 0, 1e-6);
  EXPECT_NEAR(projected[2], -2, 1e-6);
  EXPECT_NEAR(std::abs(projected[5]), 1, 1e-6);
}

TEST(FitPca, LargestEntryOfAnAxisIsPositive) {
  // Variance along (1, -3) and, less, along (3, 1).
  const Pca pca = fit_pca({1, -3, -1, 3, 0.3f, 0.1f, -0.3f, -0.1f}, 2, 2);
  EXPECT_NEAR(pca.axes[0], -1 / std::sqrt(10.0), 1e-6);
  EXPECT_NEAR(pca.axes[1], 3 / std::sqrt(10.0), 1e-6);
  EXPECT_NEAR(pca.axes[2], 3 / std::sqrt(10.0), 1e-6);
  EXPECT_NEAR(pca.axes[3], 1 / std::sqrt(10.0), 1e-6);
}

TEST(FitPca, ThreeComponentsOfAnAxisAlignedCloud) {
  const std::vector<float> rows = {0, 3, 0,  0, 0, -3, 0, 0, 0,  0, 2, 0,
                                   0, 0, -2, 0, 1, 0,  0, 0, -1, 0, 0, 0};
  const Pca pca = fit_pca(rows, 4, 3);
  EXPECT_NEAR(pca.explained[0], 9.0 / 14, 1e-9);
  EXPECT_NEAR(pca.explained[1], 4.0 / 14, 1e-9);
  EXPECT_NEAR(pca.explained[2], 1.0 / 14, 1e-9);
  EXPECT_NEAR(pca.axes[1], 1, 1e-9);
  EXPECT_NEAR(pca.axes[4 + 2], 1, 1e-9);
  EXPECT_NEAR(pca.axes[8 + 0], 1, 1e-9);
}

TEST(FitPca, TooFewPointsGiveZeroAxes) {
  const Pca pca = fit_pca({1, 2, 3}, 3, 2);
  EXPECT_EQ(pca.mean, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(pca.axes, std::vector<double>(6, 0));
  EXPECT_EQ(pca.explained, std::vector<double>(2, 0));
  const Pca constant = fit_pca({1, 1, 1, 1, 1, 1}, 2, 2);
  EXPECT_EQ(constant.explained, std::vector<double>(2, 0));
}

TEST(FitPca, RowsThatAreNotFiniteAreLeftOut) {
  std::vector<float> rows = cross_of_points();
  rows.insert(rows.end(), {NAN, 1, INFINITY, 2});
  EXPECT_EQ(fit_pca(rows, 2, 2).axes, fit_pca(cross_of_points(), 2, 2).axes);
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
      const QueryGeometry got = query_geometry(trace.session(), 1, chunk, head, 2,
                                               method(trace, "quoka:num_queries=6"), 1000, {});
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
      EXPECT_EQ(got.key_positions.size(), static_cast<std::size_t>(begin + length));
      EXPECT_EQ(got.keys.size(), got.key_positions.size());
      EXPECT_EQ(got.queries.size(), got.relevance.size());
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
    const QueryGeometry got = query_geometry(trace.session(), 1, 2, head, 2, {}, 100, {});
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
  EXPECT_EQ(query_geometry(trace.session(), 0, 0, 0, 2, {}, 100, {}).max_attention[0], 0);
  EXPECT_TRUE(std::isnan(query_geometry(trace.session(), 0, 0, 0, 2, {}, 100, {}).alpha[0]));
}

TEST(QueryGeometry, MeanQueryIsTheMeanOfTheProjectedQueries) {
  const SmallTrace trace;
  const QueryGeometry got = query_geometry(trace.session(), 0, 1, 2, 3, {}, 100, {});
  std::array<double, 3> mean{};
  for (const auto& point : got.queries) {
    for (int c = 0; c < 3; ++c) mean[c] += point[c] / static_cast<double>(got.queries.size());
  }
  for (int c = 0; c < 3; ++c) EXPECT_NEAR(got.mean_query[c], mean[c], 1e-5);
}

TEST(QueryGeometry, KeysAreThinnedEvenlyAndTheSinkStays) {
  const SmallTrace trace;
  const QueryGeometry got = query_geometry(trace.session(), 0, 3, 0, 2, {}, 10, {});
  ASSERT_EQ(got.key_positions.size(), 10U);
  EXPECT_EQ(got.key_positions.front(), 0);
  for (std::size_t i = 1; i < 10; ++i) {
    const int step = got.key_positions[i] - got.key_positions[i - 1];
    EXPECT_TRUE(step == 5 || step == 6) << step;  // 53 keys, 10 shown
  }
}

TEST(QueryGeometry, AllAreChosenWhenAsManyAreWantedAsThereAre) {
  const SmallTrace trace;
  const auto quoka = method(trace, "quoka:num_queries=5");
  const auto chosen = query_geometry(trace.session(), 0, 3, 0, 2, quoka, 10, {}).chosen;
  EXPECT_EQ(chosen, std::vector<std::uint8_t>(5, 1));
}

using Marks = std::vector<std::uint8_t>;

Marks marked(const SmallTrace& trace, const char* text, int chunk, int q_head = 1) {
  return query_geometry(trace.session(), 1, chunk, q_head, 2, method(trace, text), 10, {}).chosen;
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
  EXPECT_TRUE(query_geometry(trace.session(), 1, 2, 0, 2, {}, 10, {}).chosen.empty());
}

TEST(QueryGeometry, MarksNothingInDecodeWhereTheMethodRestsThere) {
  SmallTraceShape shape;
  shape.decoded = 1;
  const SmallTrace trace(shape);
  EXPECT_EQ(marked(trace, "quoka", 4), Marks{1});
  EXPECT_TRUE(marked(trace, "quoka:decode=dense", 4).empty());
  EXPECT_TRUE(marked(trace, "snapkv", 4).empty());
}

TEST(QueryGeometry, SaysWhyTheRowsOfAMethodAreNotKnown) {
  const SmallTrace trace;
  const auto minference = method(trace, "minference:config=/no/such/file.json");
  const QueryGeometry got = query_geometry(trace.session(), 1, 2, 0, 2, minference, 10, {});
  EXPECT_TRUE(got.chosen.empty());
  EXPECT_NE(got.chosen_missing.find("/no/such/file.json"), std::string::npos);
  EXPECT_EQ(got.queries.size(), 16U);
}

TEST(QueryGeometry, OutsideTheTraceIsAnError) {
  const SmallTrace trace;
  EXPECT_THROW(query_geometry(trace.session(), 0, 4, 0, 2, {}, 10, {}), Error);
  EXPECT_THROW(query_geometry(trace.session(), 0, 0, 4, 2, {}, 10, {}), Error);
  EXPECT_THROW(query_geometry(trace.session(), 7, 0, 0, 2, {}, 10, {}), Error);
}

}  // namespace
}  // namespace kvloupe::analysis
