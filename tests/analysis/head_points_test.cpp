// The principal components of a head's queries and keys against power iteration in plain loops; what
// was before the rotary embedding against complex numbers; its attention against the definition.
#include "core/analysis/head_points.h"

#include "tests/replay/small_trace.h"

#include "core/base/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <functional>
#include <numeric>
#include <vector>

namespace kvloupe::analysis {
namespace {

using replay::testing::SmallTrace;
using replay::testing::SmallTraceShape;

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

using Row = std::vector<double>;

double dot(const Row& x, const Row& y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

// Components by power iteration with deflation, and where rows lie in them.
class SlowPca {
 public:
  SlowPca(const std::vector<Row>& rows, int components) : mean_(rows.front().size(), 0) {
    const std::size_t dim = mean_.size();
    for (const Row& row : rows)
      for (std::size_t c = 0; c < dim; ++c) mean_[c] += row[c] / static_cast<double>(rows.size());
    std::vector<Row> covariance(dim, Row(dim, 0));
    for (const Row& row : rows)
      for (std::size_t a = 0; a < dim; ++a)
        for (std::size_t b = 0; b < dim; ++b)
          covariance[a][b] +=
              (row[a] - mean_[a]) * (row[b] - mean_[b]) / static_cast<double>(rows.size());
    double total = 0;
    for (std::size_t c = 0; c < dim; ++c) total += covariance[c][c];
    for (int component = 0; component < components; ++component) {
      Row axis(dim);
      for (std::size_t c = 0; c < dim; ++c) axis[c] = 1 + 0.1 * static_cast<double>(c);
      double value = 0;
      for (int step = 0; step < 20000; ++step) {
        Row next(dim, 0);
        for (std::size_t a = 0; a < dim; ++a) next[a] = dot(covariance[a], axis);
        value = std::sqrt(dot(next, next));
        for (std::size_t a = 0; a < dim; ++a) axis[a] = next[a] / value;
      }
      const auto largest = std::max_element(
          axis.begin(), axis.end(), [](double x, double y) { return std::abs(x) < std::abs(y); });
      if (*largest < 0)
        for (double& entry : axis) entry = -entry;
      for (std::size_t a = 0; a < dim; ++a)
        for (std::size_t b = 0; b < dim; ++b) covariance[a][b] -= value * axis[a] * axis[b];
      axes_.push_back(axis);
      explained.push_back(value / total);
    }
  }
  double at(const Row& row, std::size_t component) const {
    Row centred = row;
    for (std::size_t c = 0; c < centred.size(); ++c) centred[c] -= mean_[c];
    return dot(centred, axes_[component]);
  }
  std::vector<double> explained;

 private:
  Row mean_;
  std::vector<Row> axes_;
};

Row row_of(const float* values, int dim) { return {values, values + dim}; }

// Rows as they are stored, or turned back by the rotary embedding: the channels i and i + dim / 2 are a
// pair, turned by position * theta^(-2i / dim).
Row unturned(Row row, int position, double theta) {
  const std::size_t half = row.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const double angle =
        position * std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(row.size()));
    const auto pair = std::complex<double>(row[i], row[i + half]) * std::polar(1.0, -angle);
    row[i] = pair.real();
    row[i + half] = pair.imag();
  }
  return row;
}

struct Head {
  std::vector<Row> queries, keys, means;
};

Head head_of(const SmallTrace& trace, const PointsRequest& request) {
  const int dim = trace.shape().head_dim;
  const double theta = trace.session().info().model.rope_theta;
  const auto& chunks = trace.session().info().chunks;
  const auto form = [&](const float* values, int position) {
    const Row row = row_of(values, dim);
    return request.before_rotary ? unturned(row, position, theta) : row;
  };
  Head head;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    if (request.chunk && static_cast<int>(c) != *request.chunk) continue;
    Row mean(static_cast<std::size_t>(dim), 0);
    for (int t = chunks[c].begin; t < chunks[c].end(); ++t) {
      head.queries.push_back(form(trace.query(request.layer, request.q_head, t), t));
      for (std::size_t i = 0; i < mean.size(); ++i)
        mean[i] += head.queries.back()[i] / chunks[c].length;
    }
    head.means.push_back(mean);
    if (c + 1 == chunks.size() || request.chunk)
      for (int t = 0; t < chunks[c].end(); ++t)
        head.keys.push_back(
            form(trace.key(request.layer, request.q_head / trace.gqa_group_size(), t), t));
  }
  return head;
}

void expect_at(const std::vector<std::array<float, 3>>& points, const std::vector<Row>& rows,
               const SlowPca& pca, int components) {
  ASSERT_EQ(points.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t c = 0; c < 3; ++c) {
      if (static_cast<int>(c) < components)
        EXPECT_NEAR(points[i][c], pca.at(rows[i], c), 2e-4) << i << " component " << c;
      else
        EXPECT_EQ(points[i][c], 0);
    }
}

TEST(HeadPoints, LieWherePowerIterationPutsThem) {
  const SmallTrace trace;
  for (const int components : {2, 3})
    for (const bool apart : {false, true})
      for (const bool before : {false, true})
        for (const std::optional<int> chunk : {std::optional<int>(2), std::optional<int>()}) {
          SCOPED_TRACE(testing::Message() << components << " components, apart " << apart
                                          << ", before " << before << ", all " << !chunk);
          PointsRequest request;
          request.layer = 1;
          request.q_head = 3;
          request.chunk = chunk;
          request.components = components;
          request.apart = apart;
          request.before_rotary = before;
          const HeadPoints got = head_points(trace.session(), request, {});
          const Head head = head_of(trace, request);
          std::vector<Row> both = head.queries;
          both.insert(both.end(), head.keys.begin(), head.keys.end());
          const SlowPca of_queries(apart ? head.queries : both, components);
          const SlowPca of_keys(apart ? head.keys : both, components);
          expect_at(got.queries, head.queries, of_queries, components);
          expect_at(got.keys, head.keys, of_keys, components);
          expect_at(got.mean_queries, head.means, of_queries, components);
          for (int c = 0; c < components; ++c) {
            EXPECT_NEAR(got.query_pca.explained[c], of_queries.explained[c], 1e-5);
            EXPECT_NEAR(got.key_pca.explained[c], of_keys.explained[c], 1e-5);
          }
        }
}

TEST(HeadPoints, OfAllChunksHaveTheRelevanceOfTheirOwnChunk) {
  const SmallTrace trace;
  PointsRequest request;
  request.q_head = 2;
  const HeadPoints all = head_points(trace.session(), request, {});
  ASSERT_EQ(all.queries.size(), 53U);
  EXPECT_EQ(all.mean_queries.size(), 4U);
  std::vector<float> one_by_one;
  for (int chunk = 0; chunk < 4; ++chunk) {
    request.chunk = chunk;
    const HeadPoints one = head_points(trace.session(), request, {});
    EXPECT_EQ(one.first_chunk, chunk);
    // By the definition: minus the cosine of a query to the mean query.
    const Head head = head_of(trace, request);
    for (std::size_t i = 0; i < head.queries.size(); ++i) {
      const Row& q = head.queries[i];
      const Row& mean = head.means.front();
      EXPECT_NEAR(one.relevance[i], -dot(q, mean) / std::sqrt(dot(q, q) * dot(mean, mean)), 1e-6);
    }
    one_by_one.insert(one_by_one.end(), one.relevance.begin(), one.relevance.end());
  }
  EXPECT_EQ(all.relevance, one_by_one);
}

TEST(HeadPoints, AreThinnedEvenlyAndTheSinkStays) {
  const SmallTrace trace;
  PointsRequest request;
  request.max_keys = 10;
  request.max_queries = 10;
  const HeadPoints got = head_points(trace.session(), request, {});
  EXPECT_EQ(got.query_positions, got.key_positions);
  ASSERT_EQ(got.key_positions.size(), 10U);
  EXPECT_EQ(got.key_positions.front(), 0);
  for (std::size_t i = 1; i < 10; ++i) {
    const int step = got.key_positions[i] - got.key_positions[i - 1];
    EXPECT_TRUE(step == 5 || step == 6) << step;  // 53 keys, 10 shown
  }
  // Where every key stands is known, also of those that are left out: its lanes, less their mean, along
  // the components.
  ASSERT_EQ(got.every_key.size(), 53U);
  const int dim = trace.shape().head_dim;
  for (int key = 0; key < 53; ++key)
    for (int c = 0; c < 2; ++c) {
      double along = 0;
      for (int d = 0; d < dim; ++d)
        along +=
            (double{trace.key(0, 0, key)[d]} - got.key_pca.mean[d]) * got.key_pca.axes[c * dim + d];
      EXPECT_NEAR(got.every_key[key][c], along, 1e-5) << key;
    }
  // A chunk's queries are all there, and its mean is of all of them.
  request.chunk = 1;
  EXPECT_EQ(head_points(trace.session(), request, {}).queries.size(), 16U);
}

TEST(HeadPoints, OutsideTheTraceIsAnError) {
  const SmallTrace trace;
  const auto at = [&](int layer, std::optional<int> chunk, int q_head) {
    PointsRequest request;
    request.layer = layer;
    request.chunk = chunk;
    request.q_head = q_head;
    return head_points(trace.session(), request, {});
  };
  EXPECT_THROW(at(0, 4, 0), Error);
  EXPECT_THROW(at(0, -1, 0), Error);
  EXPECT_THROW(at(0, 0, 4), Error);
  EXPECT_THROW(at(7, 0, 0), Error);
}

TEST(HeadAttention, IsTheLargestGivenAndReceived) {
  const SmallTrace trace;
  const int tokens = trace.num_tokens();
  for (const std::optional<int> chunk : {std::optional<int>(1), std::optional<int>()}) {
    const HeadAttention got = head_attention(trace.session(), 1, 2, chunk, {});
    std::vector<double> given(static_cast<std::size_t>(tokens), 0),
        received(static_cast<std::size_t>(tokens), 0);
    for (int query = chunk ? 16 : 0; query < (chunk ? 32 : tokens); ++query)
      for (int key = 1; key <= query; ++key) {
        const double p = trace.probability(1, 2, query, key);
        given[static_cast<std::size_t>(query)] =
            std::max(given[static_cast<std::size_t>(query)], p);
        received[static_cast<std::size_t>(key)] =
            std::max(received[static_cast<std::size_t>(key)], p);
      }
    ASSERT_EQ(got.given.size(), given.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      EXPECT_NEAR(got.given[i], given[i], 1e-6) << i;
      EXPECT_NEAR(got.received[i], received[i], 1e-6) << i;
    }
  }
}

}  // namespace
}  // namespace kvloupe::analysis
