// What QuoKA's theory and its trap of paired slots say.
#include "core/selection/cell_rows.h"
#include "tests/selection/oracle_loops.h"
#include "tests/selection/sequences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>

namespace kvloupe::selection::testing {
namespace {

// Why queries far from the mean matter: with beta = cos(k, q) and alpha = cos(M, k),
// cos(M, q) <= 1 + alpha beta - alpha^2 / 2 - beta^2 / 2. A query close to a key that the mean
// query is far from is far from the mean.
TEST(QuokaTheory, BoundsTheCosineOfAQueryToTheMean) {
  const Sequence sequence = random_sequence({}, 61);
  const Cell cell = cell_of(sequence, 2);
  const trace::ChunkInfo& span = sequence.chunks[2];
  const int dim = sequence.shape.head_dim;
  double closest = std::numeric_limits<double>::infinity();
  for (int head = 0; head < sequence.shape.num_q_heads; ++head) {
    Row mean(static_cast<std::size_t>(dim), 0.0);
    for (int query = span.begin; query < span.end(); ++query)
      for (int i = 0; i < dim; ++i) mean[i] += static_cast<double>(sequence.query(head, query)[i]);
    const auto relevance = on_host<double>(query_relevance(cell.q.narrow(0, head, 1)));
    for (int key = 0; key < span.end(); ++key) {
      const Row k = as_row(sequence.key(head / 2, key), dim);
      const double alpha = cosine(mean, k, 1e-6);
      for (int row = 0; row < span.length; ++row) {
        const double beta = cosine(k, as_row(sequence.query(head, span.begin + row), dim), 1e-6);
        const double slack =
            1 + alpha * beta - alpha * alpha / 2 - beta * beta / 2 + relevance[row];
        EXPECT_GE(slack, -1e-9);
        closest = std::min(closest, slack);
      }
    }
  }
  EXPECT_LT(closest, 0.5);  // the bound says something here
}

TEST(Quoka, AllRowsGiveTheLargestCosineOfAnyQuery) {
  const Sequence sequence = random_sequence({.num_kv_heads = 4}, 62);
  const trace::ChunkInfo& span = sequence.chunks[2];
  const MethodRun run = run_method(sequence, "quoka:budget_tokens=9,num_queries=16");
  for (int head = 0; head < 4; ++head) {
    Scores scores;
    scores.pool = range(0, span.begin);
    for (int key = 0; key < span.begin; ++key) {
      double best = -1;
      for (int query = span.begin; query < span.end(); ++query)
        best = std::max(best, cosine(as_row(sequence.query(head, query), 16),
                                     as_row(sequence.key(head, key), 16), 1e-6));
      scores.values.push_back(best);
    }
    EXPECT_EQ(defect(scores, run.cells[2].rows[static_cast<std::size_t>(head)].positions, 9), "");
  }
}

std::vector<float> scores_of(const Cell& cell, const std::vector<std::vector<std::int32_t>>& chosen,
                             std::int64_t num_candidates, const CosineScoring& options) {
  return on_host<float>(
      score_keys(cell.q, cell.k, on_device(chosen, cell.q.device()), num_candidates, options));
}

// Chosen rows are kept by rank because heads are averaged slot by slot: another pairing of the same
// rows is another method. Reduced head by head there is no pairing.
TEST(Quoka, ThePairingOfSlotsMattersOnlyWhereSlotsAreAveraged) {
  const Cell cell =
      cell_of(random_sequence({.num_kv_heads = 1, .chunk_lengths = {200, 32}}, 63), 1);
  std::vector<std::vector<std::int32_t>> chosen(4, {1, 5, 9, 14, 20, 27, 28, 31});
  std::vector<std::vector<std::int32_t>> shuffled = chosen;
  std::mt19937 random(64);
  for (std::size_t head = 1; head < shuffled.size(); ++head)
    std::shuffle(shuffled[head].begin(), shuffled[head].end(), random);
  const auto largest_change = [&](const CosineScoring& options) {
    const auto a = scores_of(cell, chosen, 200, options);
    const auto b = scores_of(cell, shuffled, 200, options);
    double change = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
      change = std::max(change, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    return change;
  };
  CosineScoring paired;
  CosineScoring by_head;
  by_head.group_reduce = GroupReduce::ScoresFirst;
  CosineScoring mean;
  mean.query_reduce = QueryReduce::Mean;
  EXPECT_GT(largest_change(paired), 0.1);
  EXPECT_EQ(largest_change(by_head), 0);
  EXPECT_LT(largest_change(mean), 1e-6);  // a mean over slots has no pairs either
  RecordProperty("largest_change_of_a_score", std::to_string(largest_change(paired)));
}

// The same rows in every head: before the maximum, averaging queries or scores is the same.
TEST(Quoka, SharedRowsMayBeAveragedBeforeOrAfterTheProduct) {
  const Cell cell = cell_of(random_sequence({}, 65), 2);
  const std::vector<std::vector<std::int32_t>> chosen(4, {2, 7, 11});
  CosineScoring before;
  before.query_reduce = QueryReduce::Mean;
  CosineScoring after = before;
  after.group_reduce = GroupReduce::ScoresFirst;
  const auto a = scores_of(cell, chosen, 32, before);
  const auto b = scores_of(cell, chosen, 32, after);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6);
}

}  // namespace
}  // namespace kvloupe::selection::testing
