// What views show of layers whose softmax has a window, a softcap, a learned sink, or all of them,
// against plain loops over the definition (small_trace.h).
#include "core/analysis/attention_map.h"
#include "core/analysis/heavy_tail.h"
#include "core/analysis/overview.h"
#include "core/analysis/received_rankings.h"
#include "core/analysis/selected_vs_true.h"
#include "core/replay/replay.h"
#include "tests/replay/small_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

namespace kvloupe::analysis {
namespace {

using replay::Number;
using replay::testing::SmallTrace;
using replay::testing::SmallTraceShape;

struct Form {
  const char* name;
  int window;
  double softcap;
  bool sinks;
};

class ShapedViews : public ::testing::TestWithParam<Form> {
 protected:
  static SmallTraceShape shape() {
    SmallTraceShape shape = {.window = GetParam().window, .softcap = GetParam().softcap};
    if (GetParam().sinks) shape.sink_logits = {-0.5F, 0.75F, 2.25F, 1.0F};
    return shape;
  }
  double p(int head, int query, int key) const { return trace_.probability(1, head, query, key); }

  SmallTrace trace_{shape()};
};

TEST_P(ShapedViews, MapsAndRowsAreTheProbabilities) {
  constexpr int kHead = 2;
  const Matrix rows = attention_rows(trace_.session(), 1, kHead, 10, 30, {});
  for (int r = 0; r < 20; ++r)
    for (int j = 0; j <= 10 + r; ++j) EXPECT_NEAR(rows.at(r, j), p(kHead, 10 + r, j), 2e-6);
  const AttentionMap map = attention_map(trace_.session(), 1, kHead, 7, {});
  const auto step = static_cast<int>(map.step);
  for (int row = 0; row < map.max.rows; ++row)
    for (int col = 0; col <= row; ++col) {
      double largest = 0, sum = 0;
      int count = 0;
      for (int t = row * step; t < std::min((row + 1) * step, trace_.num_tokens()); ++t)
        for (int j = col * step; j < (col + 1) * step && j <= t; ++j, ++count) {
          largest = std::max(largest, p(kHead, t, j));
          sum += p(kHead, t, j);
        }
      EXPECT_NEAR(map.max.at(row, col), largest, 2e-6);
      EXPECT_NEAR(map.mean.at(row, col), sum / count, 2e-6);
    }
}

TEST_P(ShapedViews, EntropyIsThatOfTheKeysSeen) {
  const Overview overview = overview_of_attention(trace_.session(), Number::Entropy, 1, {});
  for (int head = 0; head < 4; ++head) {
    double sum = 0;
    for (int t = 16; t < 32; ++t)
      for (int j = 0; j <= t; ++j)
        if (p(head, t, j) > 0) sum -= p(head, t, j) * std::log(p(head, t, j));
    EXPECT_NEAR(overview.values.at(1, head), sum / 16, 1e-5);
  }
}

TEST_P(ShapedViews, TrueRanksAreByMassOfTheCandidates) {
  replay::ReplayRequest request;
  request.spec =
      selection::MethodSpec::parse("random:budget_tokens=5").resolved(trace_.session().shape());
  const replay::ReplayResult result = replay::replay(trace_.session(), request, {});
  const replay::ReplayCell& cell = *result.find(1, 2);
  const SelectedVsTrue view = selected_vs_true(trace_.session(), cell, 1, 2);
  const auto mass = trace_.mass(1, 1, 32, 48);
  const int first = shape().window > 0 ? 32 - shape().window + 1 : 0;
  EXPECT_EQ(view.first_candidate, first);
  std::vector<std::int32_t> order(static_cast<std::size_t>(32 - first));
  std::iota(order.begin(), order.end(), first);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return mass[a] > mass[b]; });
  ASSERT_EQ(view.by_true_rank.size(), order.size());
  double missed = 0, whole = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    EXPECT_EQ(view.by_true_rank[rank].position, order[rank]);
    const double of_key = mass[order[rank]];
    EXPECT_NEAR(view.by_true_rank[rank].mass, of_key, 1e-5);
    whole += of_key;
    const auto& kept = cell.rows[1].positions;
    if (!std::binary_search(kept.begin(), kept.end(), order[rank])) missed += of_key;
  }
  EXPECT_NEAR(view.missed_mass, missed / whole, 1e-5);
}

TEST_P(ShapedViews, WhatKeysReceiveIsTheProbability) {
  const ReceivedRankings received = received_rankings(trace_.session(), 1, 2, 2, 32, 48, 48, {});
  for (int j = 0; j < 48; ++j) {
    double sum = 0, most = 0;
    for (const int head : {2, 3})
      for (int t = 32; t < 48; ++t) {
        sum += p(head, t, j);
        most = std::max(most, p(head, t, j));
      }
    EXPECT_NEAR(received.mean[j], sum / 32, 1e-6) << j;
    EXPECT_NEAR(received.max[j], most, 2e-6) << j;
  }
  const Matrix rows = attention_rows(trace_.session(), 1, 3, 32, 48, {});
  const HeavyTail tail = heavy_tail(trace_.session(), 1, 2, 3, rows, {});
  for (int r = 0; r < 16; ++r) {
    double given = 0;
    for (int j = 1; j < 32; ++j) given += p(3, 32 + r, j);
    EXPECT_NEAR(tail.query_mass[r], given, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, ShapedViews,
                         ::testing::Values(Form{"window", 21, 0, false},
                                           Form{"softcap", 0, 0.9, false}, Form{"sink", 0, 0, true},
                                           Form{"all", 13, 1.1, true}),
                         [](const auto& form) { return std::string(form.param.name); });

}  // namespace
}  // namespace kvloupe::analysis
