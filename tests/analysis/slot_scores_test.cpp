// Slots of QuoKA against plain loops written from Algorithm 1: which query rows a slot joins, how it scores
// each key, which slot wins, and that the keys kept are those of the largest scores.
#include "core/analysis/slot_scores.h"

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

constexpr int kLayer = 1, kChunk = 2, kBegin = 32, kLength = 16;
constexpr int kSlots = 4;

selection::MethodSpec method(const SmallTrace& trace, const std::string& text) {
  return selection::MethodSpec::parse(text).resolved(trace.session().shape());
}

SlotScores slots_of(const SmallTrace& trace, const std::string& text, int q_head,
                    int chunk = kChunk) {
  const selection::MethodSpec spec = method(trace, text);
  replay::ReplayRequest request;
  request.spec = spec;
  request.want_mass = false;
  return slot_scores(trace.session(), spec, replay::replay(trace.session(), request, {}), kLayer,
                     chunk, q_head, {});
}

double norm(const float* row, int dim) {
  double sum = 0;
  for (int c = 0; c < dim; ++c) sum += double{row[c]} * double{row[c]};
  return std::sqrt(sum);
}

// The rows of the chunk by S_q, largest first.
std::vector<int> rows_by_relevance(const SmallTrace& trace, int q_head) {
  const int dim = trace.shape().head_dim;
  std::vector<double> mean(dim, 0), relevance;
  for (int i = 0; i < kLength; ++i)
    for (int c = 0; c < dim; ++c) mean[c] += trace.query(kLayer, q_head, kBegin + i)[c];
  double length = 0;
  for (const double value : mean) length += value * value;
  for (int i = 0; i < kLength; ++i) {
    const float* row = trace.query(kLayer, q_head, kBegin + i);
    double dot = 0;
    for (int c = 0; c < dim; ++c) dot += mean[c] * row[c];
    relevance.push_back(-dot / std::sqrt(length) / norm(row, dim));
  }
  std::vector<int> order(kLength);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return relevance[a] > relevance[b]; });
  return order;
}

// <mean over `heads` of q/|q|, k/|k|> for slot `slot`.
double slot_score_slowly(const SmallTrace& trace, const std::vector<int>& heads, int slot,
                         int key) {
  const int dim = trace.shape().head_dim;
  const float* k = trace.key(kLayer, heads.front() / trace.gqa_group_size(), key);
  double score = 0;
  for (const int head : heads) {
    const float* q = trace.query(kLayer, head, kBegin + rows_by_relevance(trace, head)[slot]);
    for (int c = 0; c < dim; ++c)
      score +=
          double{q[c]} / norm(q, dim) * k[c] / norm(k, dim) / static_cast<double>(heads.size());
  }
  return score;
}

TEST(SlotScores, AreThoseOfPlainLoops) {
  const SmallTrace trace;
  const SlotScores got = slots_of(trace, "quoka:budget_tokens=8,num_queries=4", 3);
  EXPECT_EQ(got.kv_head, 1);
  ASSERT_EQ(got.num_slots(), kSlots);
  ASSERT_EQ(got.num_keys(), kBegin);
  ASSERT_EQ(got.scores.rows, kSlots);
  ASSERT_EQ(got.scores.cols, kBegin);
  std::vector<std::pair<double, int>> ranked;
  for (int key = 0; key < kBegin; ++key) {
    double best = -2;
    int winner = 0;
    for (int slot = 0; slot < kSlots; ++slot) {
      const double score = slot_score_slowly(trace, {2, 3}, slot, key);
      EXPECT_NEAR(got.scores.at(slot, key), score, 1e-5) << slot << ' ' << key;
      if (score > best) best = score, winner = slot;
    }
    EXPECT_NEAR(got.score[key], best, 1e-5) << key;
    EXPECT_EQ(got.winner[key], winner) << key;
    ranked.emplace_back(-best, key);
  }
  std::sort(ranked.begin(), ranked.end());
  for (int rank = 0; rank < kBegin; ++rank)
    EXPECT_EQ(got.kept[ranked[rank].second] != 0, rank < 8) << rank;
  ASSERT_TRUE(got.cut);
  EXPECT_NEAR(*got.cut, -ranked[7].first, 1e-5);
  for (int slot = 0; slot < kSlots; ++slot)
    EXPECT_EQ(got.queries[slot],
              (std::vector<std::int32_t>{kBegin + rows_by_relevance(trace, 2)[slot],
                                         kBegin + rows_by_relevance(trace, 3)[slot]}));
}

TEST(SlotScores, OfHeadsThatAreReducedByThemselves) {
  const SmallTrace trace;
  const SlotScores got =
      slots_of(trace, "quoka:budget_tokens=8,num_queries=4,group_query_mode=post_agg", 3);
  ASSERT_TRUE(got.is_one_head);
  for (int key = 0; key < kBegin; ++key) {
    double mean = 0;
    for (const int head : {2, 3}) {
      double best = -2;
      for (int slot = 0; slot < kSlots; ++slot)
        best = std::max(best, slot_score_slowly(trace, {head}, slot, key));
      mean += best / 2;
    }
    EXPECT_NEAR(got.score[key], mean, 1e-5) << key;
    for (int slot = 0; slot < kSlots; ++slot)
      EXPECT_NEAR(got.scores.at(slot, key), slot_score_slowly(trace, {3}, slot, key), 1e-5);
  }
  ASSERT_EQ(got.queries.front().size(), 1U);
  EXPECT_EQ(got.queries.front().front(), kBegin + rows_by_relevance(trace, 3).front());
}

TEST(SlotScores, OfMeansAndOfEvenlySpacedRows) {
  const SmallTrace trace;
  const SlotScores mean =
      slots_of(trace, "quoka:budget_tokens=8,num_queries=4,query_reduce=mean", 0);
  EXPECT_TRUE(mean.takes_mean);
  for (int key = 0; key < kBegin; ++key) {
    double sum = 0;
    for (int slot = 0; slot < kSlots; ++slot)
      sum += slot_score_slowly(trace, {0, 1}, slot, key) / kSlots;
    EXPECT_NEAR(mean.score[key], sum, 1e-5) << key;
  }
  const SlotScores even = slots_of(trace, "uniform_queries:budget_tokens=8,num_queries=4", 0);
  ASSERT_EQ(even.num_slots(), kSlots);
  for (int slot = 0; slot < kSlots; ++slot)  // floor((2 slot + 1) 16 / 8)
    EXPECT_EQ(even.queries[slot],
              (std::vector<std::int32_t>{kBegin + 2 + 4 * slot, kBegin + 2 + 4 * slot}));
}

TEST(SlotScores, WithNothingToChooseFrom) {
  const SmallTrace trace;
  const SlotScores first = slots_of(trace, "quoka:budget_tokens=8,num_queries=4", 0, 0);
  EXPECT_EQ(first.num_keys(), 0);
  EXPECT_EQ(first.dense_reason, trace::DenseReason::EmptyPast);
  const SlotScores all = slots_of(trace, "quoka:budget_tokens=64,num_queries=4", 0);
  EXPECT_EQ(all.dense_reason, trace::DenseReason::FitsBudget);
  EXPECT_FALSE(all.cut);
  EXPECT_EQ(std::count(all.kept.begin(), all.kept.end(), 1), kBegin);
}

TEST(SlotScores, RefusesWhatHasNoSlots) {
  const SmallTrace trace;
  for (const auto& [text, head] :
       {std::pair{"snapkv:budget_tokens=8", 0}, {"quoka:budget_tokens=8", 4}})
    try {
      slots_of(trace, text, head);
      ADD_FAILURE() << text << ' ' << head;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
    }
}

}  // namespace
}  // namespace kvloupe::analysis
