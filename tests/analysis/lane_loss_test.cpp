// Retention losses and score errors of pruned lanes against plain loops over the definitions, and
// the numbers worked out by hand for the AQUA paper's two-lane rotation.
#include "core/analysis/lane_loss.h"

#include "core/analysis/lane_report.h"
#include "core/replay/cell_metrics.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace kvloupe::analysis {
namespace {

using Rows = std::vector<std::vector<double>>;

Rows random_rows(int n, int d, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> gauss;
  Rows rows(static_cast<std::size_t>(n), std::vector<double>(static_cast<std::size_t>(d)));
  for (int i = 0; i < n; ++i)
    for (int c = 0; c < d; ++c) rows[i][c] = gauss(generator) / (1 + c);  // falling variance
  return rows;
}

at::Tensor tensor_of(const Rows& rows) {
  at::Tensor t = at::empty(
      {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows.front().size())},
      at::kDouble);
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t c = 0; c < rows[i].size(); ++c)
      t[static_cast<std::int64_t>(i)][static_cast<std::int64_t>(c)] = rows[i][c];
  return t;
}

// Of one head whose queries are the last keys' own.
double score_error(const at::Tensor& q, const at::Tensor& pruned, const at::Tensor& k) {
  selection::Cell cell;
  cell.q = q.unsqueeze(0).to(at::kFloat);
  cell.k = k.unsqueeze(0).to(at::kFloat);
  cell.chunk_len = q.size(0);
  cell.past_len = k.size(0) - q.size(0);
  return replay::CellTruth(cell, {}).score_errors(pruned.unsqueeze(0).to(at::kFloat)).front();
}

std::vector<int> largest_lanes(const std::vector<double>& v, int k) {
  std::vector<int> lanes(v.size());
  std::iota(lanes.begin(), lanes.end(), 0);
  std::sort(lanes.begin(), lanes.end(), [&](int a, int b) {
    const double x = std::abs(v[a]), y = std::abs(v[b]);
    return x != y ? x > y : a < b;
  });
  lanes.resize(static_cast<std::size_t>(k));
  return lanes;
}

double norm_of(const std::vector<double>& v, const std::vector<int>& lanes) {
  double sum = 0;
  for (const int lane : lanes) sum += v[lane] * v[lane];
  return std::sqrt(sum);
}

double loss_of(const std::vector<double>& v, const std::vector<int>& lanes) {
  std::vector<int> all(v.size());
  std::iota(all.begin(), all.end(), 0);
  const double whole = norm_of(v, all);
  return whole == 0 ? 0 : std::abs(whole - norm_of(v, lanes)) / whole;
}

std::vector<int> first_lanes(int k) {
  std::vector<int> lanes(static_cast<std::size_t>(k));
  std::iota(lanes.begin(), lanes.end(), 0);
  return lanes;
}

TEST(OwnLaneLoss, IsTheMeanOfTheDefinition) {
  Rows rows = random_rows(23, 12, 1);
  rows[5].assign(12, 0.0);
  const std::vector<int> kept{1, 3, 7, 12};
  const auto magnitude = own_lane_loss(tensor_of(rows), kept, false);
  const auto leading = own_lane_loss(tensor_of(rows), kept, true);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    double own = 0, first = 0;
    for (const auto& row : rows) {
      own += loss_of(row, largest_lanes(row, kept[i])) / 23;
      first += loss_of(row, first_lanes(kept[i])) / 23;
    }
    EXPECT_NEAR(magnitude[i], own, 1e-12) << kept[i];
    EXPECT_NEAR(leading[i], first, 1e-12) << kept[i];
  }
}

TEST(OwnLaneLoss, MagnitudeIsNeverWorseThanLeadingForTheSameVector) {
  const std::vector<int> kept{1, 2, 3, 4, 5, 6, 7, 8};
  for (unsigned seed = 0; seed < 50; ++seed) {
    const at::Tensor v = tensor_of(random_rows(1, 8, seed));
    const auto magnitude = own_lane_loss(v, kept, false);
    const auto leading = own_lane_loss(v, kept, true);
    for (std::size_t i = 0; i < kept.size(); ++i) {
      EXPECT_LE(magnitude[i], leading[i] + 1e-15) << "seed " << seed << ", k " << kept[i];
      if (i > 0) {
        EXPECT_LE(magnitude[i], magnitude[i - 1] + 1e-15);
      }
    }
    EXPECT_EQ(magnitude.back(), 0);
    EXPECT_EQ(leading.back(), 0);
  }
}

// P = [[.6,.8],[.8,-.6]]: q = (1,2) has the lanes (2.2,-.4), k = (3,1) the lanes (2.6,1.8). With one
// lane the query loses 1 - 2.2/sqrt(5); k keeps lane 0: 1 - 2.6/sqrt(10). The score 5 becomes 5.72.
TEST(LaneGolden, TwoLanes) {
  const at::Tensor p = tensor_of({{.6, .8}, {.8, -.6}});
  const at::Tensor q = tensor_of({{1, 2}}), k = tensor_of({{3, 1}});
  const at::Tensor q_lanes = at::matmul(q, p), k_lanes = at::matmul(k, p);
  EXPECT_NEAR(own_lane_loss(q_lanes, {1}, false)[0], 0.01613008990009, 1e-10);
  EXPECT_NEAR(own_lane_loss(k_lanes, {1}, true)[0], 0.17780780835622, 1e-10);
  EXPECT_NEAR(query_lane_loss(q_lanes, k_lanes, {1}, {})[0], 0.17780780835622, 1e-6);
  const at::Tensor pruned = at::matmul(tensor_of({{2.2, 0}}), p.t());
  EXPECT_NEAR(score_error(q, pruned, k), 0.72 / 5, 1e-6);
}

TEST(QueryLaneLoss, AveragesOverThePairsThatAreSeen) {
  const int m = 5, past = 6, d = 8;
  Rows queries = random_rows(m, d, 3), keys = random_rows(past + m, d, 4);
  queries[2].assign(d, 0.0);  // all lanes tie: the lowest are kept
  keys[1].assign(d, 0.0);
  const std::vector<int> kept{1, 4, 8};
  const auto loss = query_lane_loss(tensor_of(queries), tensor_of(keys), kept, {});
  for (std::size_t i = 0; i < kept.size(); ++i) {
    double sum = 0;
    int pairs = 0;
    for (int t = 0; t < m; ++t)
      for (int j = 0; j <= past + t; ++j, ++pairs)
        sum += loss_of(keys[j], largest_lanes(queries[t], kept[i]));
    EXPECT_NEAR(loss[i], sum / pairs, 1e-6) << kept[i];
  }
}

TEST(LeadingCounts, AreThoseOfTheDefinition) {
  const int n = 40, d = 16;
  const Rows rows = random_rows(n, d, 11);
  for (const int largest : {1, 2, 4, 12})
    for (const int leading : {1, 4, 8, 16}) {
      std::vector<std::int64_t> expected(static_cast<std::size_t>(largest) + 1, 0);
      for (const std::vector<double>& row : rows) {
        int common = 0;
        for (const int lane : largest_lanes(row, largest)) common += lane < leading;
        ++expected[static_cast<std::size_t>(common)];
      }
      EXPECT_EQ(leading_counts(tensor_of(rows), largest, leading), expected)
          << largest << " " << leading;
    }
  // By hand: of (3, -4, 1, 0) the two largest are lanes 1 and 0, one of them the first lane; of
  // (0, 1, 5, 5) they are 2 and 3.
  const at::Tensor two = tensor_of({{3, -4, 1, 0}, {0, 1, 5, 5}});
  EXPECT_EQ(leading_counts(two, 2, 1), (std::vector<std::int64_t>{1, 1, 0}));
  LaneOverlap overlap;
  overlap.largest = 2;
  overlap.counts = {1, 1, 0};
  EXPECT_DOUBLE_EQ(overlap.mean(), 0.25);
}

TEST(ScoreError, IsTheRelativeNormOverVisibleKeys) {
  const int m = 4, past = 3, d = 6;
  const Rows q = random_rows(m, d, 5), pruned = random_rows(m, d, 6),
             k = random_rows(past + m, d, 7);
  double difference = 0, size = 0;
  for (int t = 0; t < m; ++t)
    for (int j = 0; j <= past + t; ++j) {
      double s = 0, a = 0;
      for (int c = 0; c < d; ++c) {
        s += q[t][c] * k[j][c];
        a += pruned[t][c] * k[j][c];
      }
      difference += (s - a) * (s - a);
      size += s * s;
    }
  EXPECT_NEAR(score_error(tensor_of(q), tensor_of(pruned), tensor_of(k)),
              std::sqrt(difference / size), 1e-6);
  EXPECT_EQ(score_error(tensor_of(q), tensor_of(q), tensor_of(k)), 0);
}

// Section 5 of the AQUA paper (i + 1 > d^2 / (d - k)), d = 128.
TEST(BreakEven, IsThatOfThePaper) {
  EXPECT_NEAR(*break_even(128, 16).one_projection, 146.286, 1e-3);
  EXPECT_EQ(*break_even(128, 64).one_projection, 256);
  EXPECT_EQ(*break_even(128, 96).one_projection, 512);
  EXPECT_EQ(*break_even(128, 112).one_projection, 1024);
  EXPECT_NEAR(*break_even(128, 16).two_projections, 292.571, 1e-3);
  EXPECT_EQ(*break_even(128, 64).two_projections, 512);
  EXPECT_EQ(*break_even(128, 96).two_projections, 1024);
  EXPECT_EQ(*break_even(128, 112).two_projections, 2048);
  EXPECT_FALSE(break_even(128, 128).one_projection.has_value());
}

TEST(LaneMemory, CountsKeysAndTheWholeCache) {
  const LaneMemory memory = lane_memory(64, 48, /*slices_values=*/false);
  EXPECT_EQ(memory.of_keys, 0.25);
  EXPECT_EQ(memory.of_kv_cache, 0.125);
  EXPECT_EQ(lane_memory(64, 48, /*slices_values=*/true).of_kv_cache, 0.25);
}

}  // namespace
}  // namespace kvloupe::analysis
