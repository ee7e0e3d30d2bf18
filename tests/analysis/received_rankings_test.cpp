// Keys ranked by received attention: by hand, and against loops over single probabilities.
#include "core/analysis/received_rankings.h"

#include "tests/replay/small_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::analysis::testing {
namespace {

using replay::testing::SmallTrace;

// 21 keys: k is ceil(1.05) = 2.
TEST(ReceivedRankings, KindsByHand) {
  std::vector<float> mean(21, 0.01F), max(21, 0.02F);
  mean[4] = 0.5F;
  mean[9] = 0.3F;
  max[9] = 0.9F;   // high in both: global
  max[17] = 0.8F;  // high by maximum only
  max[4] = 0.6F;
  const ReceivedRankings r = rank_received(mean, max);
  EXPECT_EQ(r.top, 2);
  EXPECT_EQ(r.mean_rank[4], 0);
  EXPECT_EQ(r.mean_rank[9], 1);
  EXPECT_EQ(r.mean_rank[0], 2);  // equals by position
  EXPECT_EQ(r.mean_rank[20], 20);
  EXPECT_EQ(r.max_rank[9], 0);
  EXPECT_EQ(r.max_rank[17], 1);
  EXPECT_EQ(r.max_rank[4], 2);
  EXPECT_EQ(r.kind[4], KeyKind::Global);
  EXPECT_EQ(r.kind[9], KeyKind::Global);
  EXPECT_EQ(r.kind[17], KeyKind::QuerySpecific);
  EXPECT_EQ(std::count(r.kind.begin(), r.kind.end(), KeyKind::Other), 18);
  const KindCount global = count_kind(r, KeyKind::Global, {0, 4, 17, 30});
  EXPECT_EQ(global.keys, 2);
  EXPECT_EQ(global.selected, 1);
  EXPECT_EQ(count_kind(r, KeyKind::QuerySpecific, {0, 4, 17, 30}).selected, 1);
  EXPECT_EQ(rank_received(std::vector<float>(100, 0), std::vector<float>(100, 0)).top, 5);
}

// A window inside a chunk, and one that reaches back over keys which its first queries cannot see.
TEST(ReceivedRankings, MeansAndMaximaOfTheWindow) {
  const SmallTrace trace;
  const std::pair<int, int> windows[] = {{32, 48}, {45, 48}, {10, 48}};
  for (const auto& [begin, end] : windows) {
    const ReceivedRankings r = received_rankings(trace.session(), 1, 2, 2, begin, end, 32, {});
    ASSERT_EQ(r.num_keys(), 32);
    EXPECT_EQ(r.top, 2);
    for (int key = 0; key < 32; ++key) {
      double sum = 0, max = 0;
      for (const int head : {2, 3})
        for (int query = begin; query < end; ++query) {
          const double p = trace.probability(1, head, query, key);
          sum += p;
          max = std::max(max, p);
        }
      EXPECT_NEAR(static_cast<double>(r.mean[static_cast<std::size_t>(key)]),
                  sum / (2 * (end - begin)), 1e-6);
      EXPECT_NEAR(static_cast<double>(r.max[static_cast<std::size_t>(key)]), max, 1e-6);
    }
    for (std::size_t a = 0; a < 32; ++a)
      for (std::size_t b = 0; b < 32; ++b)
        if (r.mean[a] > r.mean[b]) {
          EXPECT_LT(r.mean_rank[a], r.mean_rank[b]);
        }
  }
}

// A NaN key is counted, and so is all that the queries which see it attend to.
TEST(ReceivedRankings, WhatIsNotANumberIsBrokenAndRanksLast) {
  std::vector<float> mean(21, 0.01F), max(21, 0.02F);
  mean[0] = max[0] = mean[7] = max[7] = std::nanf("");
  mean[9] = 0.3F;
  const ReceivedRankings r = rank_received(mean, max);
  EXPECT_EQ(r.kind[0], KeyKind::Broken);
  EXPECT_EQ(r.kind[7], KeyKind::Broken);
  EXPECT_EQ(std::count(r.kind.begin(), r.kind.end(), KeyKind::Broken), 2);
  EXPECT_EQ(r.mean_rank[9], 0);
  EXPECT_EQ(r.mean_rank[0], 19);
  EXPECT_EQ(r.mean_rank[7], 20);

  const SmallTrace trace({.store_lse = false, .broken_key_at = 20});  // layer 1, KV head 1
  const auto broken = [&](int layer, int first_head, int begin, int end) {
    const ReceivedRankings of =
        received_rankings(trace.session(), layer, first_head, 2, begin, end, 32, {});
    for (std::size_t key = 0; key < 32; ++key)
      EXPECT_EQ(of.kind[key] == KeyKind::Broken, std::isnan(of.max[key])) << key;
    return std::count(of.kind.begin(), of.kind.end(), KeyKind::Broken);
  };
  EXPECT_EQ(broken(1, 2, 32, 48), 32);
  EXPECT_EQ(broken(1, 2, 10, 20), 0);  // before it
  EXPECT_EQ(broken(1, 2, 10, 21), 21);
  EXPECT_EQ(broken(1, 0, 32, 48), 0);
  EXPECT_EQ(broken(0, 2, 32, 48), 0);
}

}  // namespace
}  // namespace kvloupe::analysis::testing
