// The rows of a chunk that stand for it, against plain loops, and against what a method does when
// only the other rows change.
#include "tests/selection/method_files.h"
#include "tests/selection/oracle_loops.h"
#include "tests/selection/sequences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

namespace kvloupe::selection::testing {
namespace {

using Ints = std::vector<std::int32_t>;
using Rows = std::vector<Ints>;

Rows sampled(const Sequence& sequence, const std::string& spec, int chunk) {
  return selector_for(sequence, spec)->sampled_rows(cell_of(sequence, chunk));
}

// -cos of each row of the chunk to the mean row.
std::vector<double> away_from_mean(const Sequence& s, int chunk, int head) {
  const trace::ChunkInfo& span = s.chunks[static_cast<std::size_t>(chunk)];
  const int dim = s.shape.head_dim;
  Row mean(static_cast<std::size_t>(dim), 0.0);
  for (int query = span.begin; query < span.end(); ++query)
    for (int i = 0; i < dim; ++i) mean[i] += static_cast<double>(s.query(head, query)[i]);
  std::vector<double> result;
  for (int query = span.begin; query < span.end(); ++query)
    result.push_back(-cosine(mean, as_row(s.query(head, query), dim), 1e-12));
  return result;
}

Ints largest(const std::vector<double>& values, std::size_t count) {
  Ints order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return values[a] > values[b]; });
  order.resize(std::min(count, order.size()));
  std::sort(order.begin(), order.end());
  return order;
}

TEST(SampledRows, OfQuokaAreThoseFarthestFromTheMeanQueryOfTheHead) {
  const Sequence sequence = random_sequence({}, 71);
  for (const char* mode : {"rank_paired", "post_agg"})
    for (int chunk = 0; chunk < 4; ++chunk) {
      const Rows rows =
          sampled(sequence, "quoka:num_queries=5,group_query_mode=" + std::string(mode), chunk);
      ASSERT_EQ(rows.size(), 4U);
      for (int head = 0; head < 4; ++head)
        EXPECT_EQ(rows[head], largest(away_from_mean(sequence, chunk, head), 5)) << head;
    }
}

TEST(SampledRows, OfQuokasSharedTokensAreThoseOfTheGroupsMean) {
  const Sequence sequence = random_sequence({}, 72);
  const Rows rows = sampled(sequence, "quoka:num_queries=5,group_query_mode=shared_tokens", 2);
  ASSERT_EQ(rows.size(), 4U);
  for (int kv_head = 0; kv_head < 2; ++kv_head) {
    std::vector<double> mean = away_from_mean(sequence, 2, 2 * kv_head);
    const std::vector<double> other = away_from_mean(sequence, 2, 2 * kv_head + 1);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = (mean[i] + other[i]) / 2;
    EXPECT_EQ(rows[2 * kv_head], largest(mean, 5));
    EXPECT_EQ(rows[2 * kv_head + 1], rows[2 * kv_head]);
  }
}

TEST(SampledRows, AreAllRowsOfAChunkThatHasNoMore) {
  const Sequence sequence = random_sequence({}, 73);
  const Rows all(4, range(0, 7));
  for (const char* spec : {"quoka:num_queries=7", "uniform_queries:num_queries=9",
                           "sample_attention:num_queries=16", "snapkv:window=8"})
    EXPECT_EQ(sampled(sequence, spec, 3), all) << spec;
}

TEST(SampledRows, AtEvenDistancesOrAtTheEnd) {
  const Sequence sequence = random_sequence({}, 74);
  Ints even;
  for (int i = 0; i < 5; ++i) even.push_back((2 * i + 1) * 16 / 10);
  EXPECT_EQ(sampled(sequence, "uniform_queries:num_queries=5", 2), Rows(4, even));
  EXPECT_EQ(sampled(sequence, "sample_attention:num_queries=5", 2), Rows(4, even));
  EXPECT_EQ(sampled(sequence, "snapkv:window=3", 2), Rows(4, {13, 14, 15}));
  EXPECT_EQ(sampled(sequence, "snapkv:window=3,state=select", 2), Rows(4, {13, 14, 15}));
  EXPECT_EQ(sampled(sequence, "tova", 2), Rows(4, {15}));
  EXPECT_EQ(sampled(sequence, "tova:per_kv_head=1", 3), Rows(4, {6}));
}

TEST(SampledRows, OfPatternsAreTheLatestUnlessAllQueriesChoose) {
  const Sequence sequence = random_sequence({.chunk_lengths = {40, 100}}, 75);
  // No divergence is below 0, all are below 1.
  EXPECT_EQ(sampled(sequence, "flex_prefill:lowering=union,block_size=8,tau=0", 1),
            Rows(4, range(92, 100)));
  EXPECT_EQ(sampled(sequence, "flex_prefill:lowering=union,block_size=8,tau=1", 1), Rows(4));
  const Rows rows = sampled(sequence, "minference:lowering=union,config=FILE", 1);
  ASSERT_EQ(rows.size(), 4U);
  for (const Ints& head : rows) EXPECT_TRUE(head.empty() || head == range(36, 100));
}

TEST(SampledRows, AreThereWhereTheMethodSaysSo) {
  const Sequence sequence = random_sequence({}, 76);
  for (const MethodInfo& info : catalogue()) {
    std::string text = info.id;
    if (info.id == "seer_attention") text += ":gate=FILE";
    if (info.id == "minference") text += ":config=FILE";
    const MethodSpec spec = MethodSpec::parse(with_files(text, sequence));
    EXPECT_EQ(!sampled(sequence, text, 2).empty(), spec.traits().samples_rows) << text;
  }
}

// The rows that are not among them, in every head, take other values.
Sequence with_other_rows(const Sequence& sequence, const Rows& rows, int chunk) {
  Sequence changed = sequence;
  std::mt19937 random(77);
  std::normal_distribution<float> normal(0, 3);
  const trace::ChunkInfo& span = sequence.chunks[static_cast<std::size_t>(chunk)];
  for (int head = 0; head < sequence.shape.num_q_heads; ++head)
    for (std::int32_t row = 0; row < span.length; ++row) {
      if (std::binary_search(rows[head].begin(), rows[head].end(), row)) continue;
      const auto first =
          (static_cast<std::int64_t>(head) * sequence.num_tokens() + span.begin + row) *
          sequence.shape.head_dim;
      for (int i = 0; i < sequence.shape.head_dim; ++i) changed.q[first + i] = normal(random);
    }
  return changed;
}

TEST(SampledRows, AloneDecideWhatIsKept) {
  const Sequence sequence = random_sequence({}, 78);
  constexpr int kLast = 2;  // its queries say what chunk 3 finds alive
  for (const char* spec :
       {"uniform_queries:budget_tokens=9,num_queries=4",
        "sample_attention:budget_tokens=9,num_queries=4", "snapkv:budget_tokens=9,window=4",
        "snapkv:budget_tokens=9,window=4,state=select", "tova:budget_tokens=9"}) {
    SCOPED_TRACE(spec);
    const Sequence changed = with_other_rows(sequence, sampled(sequence, spec, kLast), kLast);
    const MethodRun before = run_method(sequence, spec), after = run_method(changed, spec);
    EXPECT_EQ(positions_of(before.cells[kLast]), positions_of(after.cells[kLast]));
    EXPECT_EQ(before.evicted[kLast], after.evicted[kLast]);
    const Sequence all_changed = with_other_rows(sequence, Rows(4), kLast);
    const MethodRun other = run_method(all_changed, spec);
    EXPECT_TRUE(positions_of(before.cells[kLast]) != positions_of(other.cells[kLast]) ||
                before.evicted[kLast] != other.evicted[kLast]);
  }
}

}  // namespace
}  // namespace kvloupe::selection::testing
