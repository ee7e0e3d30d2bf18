// The ranking rule against a plain stable sort written from its sentence.
#include "core/selection/ranking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace kvloupe::selection {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// Forced first, score descending, position ascending; NaN last.
std::vector<std::int32_t> sorted(const std::vector<float>& scores,
                                 const std::vector<std::uint8_t>& forced) {
  std::vector<std::int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    if (!forced.empty() && forced[a] != forced[b]) return forced[a] > forced[b];
    if (std::isnan(scores[a])) return false;
    if (std::isnan(scores[b])) return true;
    return scores[a] > scores[b];
  });
  return order;
}

bool equal_scores(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

void expect_kept(const std::vector<float>& scores, const std::vector<std::uint8_t>& forced,
                 std::int64_t budget) {
  const auto order = sorted(scores, forced);
  const auto size = std::min<std::int64_t>(budget, static_cast<std::int64_t>(order.size()));
  std::vector<std::int32_t> expected(order.begin(), order.begin() + size);
  std::int64_t num_forced = 0, ties = 0;
  for (const std::int32_t index : expected) num_forced += !forced.empty() && forced[index] != 0;
  if (size > 0 && size < static_cast<std::int64_t>(order.size())) {
    const std::int32_t last = order[static_cast<std::size_t>(size - 1)];
    for (auto i = static_cast<std::size_t>(size); i < order.size(); ++i)
      ties += equal_scores(scores[order[i]], scores[last]) &&
              (forced.empty() || forced[order[i]] == forced[last]);
  }
  std::sort(expected.begin(), expected.end());
  const Kept kept = keep_best(scores, budget, forced);
  EXPECT_EQ(kept.indices, expected);
  EXPECT_EQ(kept.forced, num_forced);
  EXPECT_EQ(kept.ties_at_cut, ties);
}

TEST(Ranking, EqualsAPlainSortOnManyRandomScores) {
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    const int size = static_cast<int>(random() % 60);
    const int levels = 1 + static_cast<int>(random() % 12);  // few levels: many ties
    std::vector<float> scores;
    std::vector<std::uint8_t> forced;
    for (int i = 0; i < size; ++i) {
      const float special[] = {0.0F, -0.0F, kNan, kInf, -kInf, 1e-42F, -1e-42F};
      scores.push_back(random() % 5 == 0 ? special[random() % 7]
                                         : (static_cast<float>(random() % levels) - 5) / 3);
      forced.push_back(random() % 6 == 0);
    }
    if (round % 2 == 0) forced.clear();
    expect_kept(scores, forced, static_cast<std::int64_t>(random() % 64));
  }
}

TEST(Ranking, MinusZeroEqualsZero) {
  const Kept kept = keep_best(std::vector<float>{-0.0F, 0.0F, -0.0F, 0.0F}, 2);
  EXPECT_EQ(kept.indices, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(kept.ties_at_cut, 2);
}

TEST(Ranking, NanIsBelowMinusInfinity) {
  EXPECT_EQ(keep_best(std::vector<float>{kNan, -kInf, kNan}, 1).indices,
            (std::vector<std::int32_t>{1}));
  EXPECT_EQ(keep_best(std::vector<float>{-kNan, kNan, 1}, 2).indices,
            (std::vector<std::int32_t>{0, 2}));
}

TEST(Ranking, TiesGoToTheOldest) {
  const Kept kept = keep_best(std::vector<float>(10, -1.0F), 3);
  EXPECT_EQ(kept.indices, (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(kept.ties_at_cut, 7);
}

TEST(Ranking, KeepsForcedOnesFirstAndTheBestOfTooManyForced) {
  const std::vector<float> scores = {5, 1, 4, 2, 3};
  const std::vector<std::uint8_t> forced = {0, 1, 0, 1, 0};
  EXPECT_EQ(keep_best(scores, 3, forced).indices, (std::vector<std::int32_t>{0, 1, 3}));
  EXPECT_EQ(keep_best(scores, 1, forced).indices, (std::vector<std::int32_t>{3}));
}

TEST(Ranking, OrdersBestFirst) {
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    std::vector<float> scores;
    for (int i = 0; i < 40; ++i) scores.push_back(static_cast<float>(random() % 9) - 4);
    auto expected = sorted(scores, {});
    expected.resize(17);
    EXPECT_EQ(ranked(scores, 17), expected);
  }
  EXPECT_EQ(ranked(std::vector<float>{1, 2}, 5), (std::vector<std::int32_t>{1, 0}));
  EXPECT_TRUE(ranked(std::vector<float>{}, 3).empty());
}

}  // namespace
}  // namespace kvloupe::selection
