// Hits, misses and wastes of one cell, and the fate of a span, against plain loops.
#include "core/analysis/selected_vs_true.h"
#include "core/replay/replay.h"
#include "tests/replay/small_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace kvloupe::analysis {
namespace {

using replay::testing::SmallTrace;
using Ints = std::vector<std::int32_t>;

replay::ReplayResult replay_of(const SmallTrace& trace, const std::string& spec,
                               replay::ReplayRequest request = {}) {
  request.spec = selection::MethodSpec::parse(spec).resolved(trace.session().shape());
  return replay::replay(trace.session(), request, {});
}

TEST(SelectedVsTrue, SortsKeysIntoHitsMissesAndWaste) {
  const SmallTrace trace;
  const replay::ReplayResult result = replay_of(trace, "random:budget_tokens=9");
  const replay::ReplayCell& cell = *result.find(1, 2);
  const SelectedVsTrue view = selected_vs_true(trace.session(), cell, 1, 2);
  const auto mass = trace.mass(cell.layer, 1, cell.span.begin, cell.span.end());
  Ints order(cell.span.begin);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return mass[a] > mass[b]; });
  const std::set<int> truth(order.begin(), order.begin() + 9);
  const std::set<int> kept(cell.rows[1].positions.begin(), cell.rows[1].positions.end());
  double missed = 0, whole = 0;
  for (int j = 0; j < cell.span.begin; ++j) {
    const KeyVerdict expected = kept.count(j)
                                    ? (truth.count(j) ? KeyVerdict::Hit : KeyVerdict::Waste)
                                    : (truth.count(j) ? KeyVerdict::Miss : KeyVerdict::Neither);
    EXPECT_EQ(view.verdict[j], expected);
    EXPECT_NEAR(view.mass[j], mass[j], 1e-5);
    whole += mass[j];
    if (!kept.count(j)) missed += mass[j];
  }
  EXPECT_EQ(view.hits + view.wastes, 9);
  EXPECT_EQ(view.hits + view.misses, 9);
  EXPECT_NEAR(view.missed_mass, missed / whole, 1e-5);
  EXPECT_NEAR(view.mass_recall, 1 - missed / whole, 1e-5);
  for (std::size_t rank = 0; rank < order.size(); ++rank)
    EXPECT_EQ(view.by_true_rank[rank].position, order[rank]);
}

// Chunks 2 (P = 32, keeps 23..31) and 3 (P = 48, keeps 39..47), two layers, two heads.
void expect_fates(const std::set<int>& keys, int kept_in_chunk_2) {
  const SmallTrace trace;
  const replay::ReplayResult result = replay_of(trace, "sliding_window:budget_tokens=9");
  const auto watched = trace::KeySet::of(std::vector<std::int32_t>(keys.begin(), keys.end()));
  const auto fates = span_fate(trace.session(), result, watched, {});
  ASSERT_EQ(fates.size(), 8U);
  for (const SpanFate& fate : fates) {
    EXPECT_EQ(fate.total, std::ssize(keys));
    EXPECT_EQ(fate.kept, fate.chunk == 2 ? kept_in_chunk_2 : 0);
    const replay::ReplayCell& cell = *result.find(fate.layer, fate.chunk);
    const auto mass = trace.mass(fate.layer, fate.row, cell.span.begin, cell.span.end());
    const int past = cell.span.begin;
    double span = 0, whole = 0, best = 0;
    for (int j = 0; j < past; ++j) {
      whole += mass[j];
      if (keys.count(j) != 0) span += mass[j], best = std::max(best, mass[j]);
    }
    int rank = 0;
    for (int j = 0; j < past; ++j) rank += mass[j] > best;
    EXPECT_NEAR(fate.span_mass, span / whole, 1e-5);
    EXPECT_EQ(fate.best_true_rank, rank);
  }
}

TEST(SpanFate, CountsTheKeptKeysOfASpan) { expect_fates({20, 21, 22, 23, 24, 25}, 3); }

TEST(SpanFate, OfKeysHereAndThereThoseBetweenAreNotCounted) { expect_fates({17, 20, 24, 25}, 2); }

}  // namespace
}  // namespace kvloupe::analysis
