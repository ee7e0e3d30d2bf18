// Curves over budgets: their points against plain loops over the definition, and the search for the
// budget that is enough.
#include "core/analysis/budget_sweep.h"

#include "tests/base/matchers.h"
#include "tests/replay/small_trace.h"

#include <algorithm>
#include <cmath>

namespace kvloupe::analysis {
namespace {

using replay::Number;
using replay::testing::SmallTrace;
using selection::MethodSpec;

MethodSpec spec_of(const SmallTrace& trace, const std::string& text) {
  return MethodSpec::parse(text).resolved(trace.session().shape());
}

// Mass recall, overlap and output error of one KV head's kept keys in one chunk.
struct Measured {
  double recall = 0, overlap = 0, error = 0;
};
Measured measured(const SmallTrace& trace, int layer, int kv_head, int begin, int end,
                  const std::vector<std::int32_t>& kept) {
  Measured m;
  const std::vector<double> mass = trace.mass(layer, kv_head, begin, end);
  double all = 0, ours = 0;
  for (int key = 0; key < begin; ++key) all += mass[key];
  for (const int key : kept) ours += mass[key];
  m.recall = ours / all;
  int better = 0;
  for (const int key : kept) {
    int rank = 0;
    for (int other = 0; other < begin; ++other) rank += mass[other] > mass[key];
    better += rank < static_cast<int>(kept.size());
  }
  m.overlap = static_cast<double>(better) / static_cast<double>(kept.size());
  const int group = trace.gqa_group_size(), dim = trace.shape().head_dim;
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    double distance = 0, length = 0;
    for (int query = begin; query < end; ++query) {
      std::vector<double> dense(dim, 0.0), sparse(dim, 0.0);
      double left = 0;
      for (int key = 0; key <= query; ++key) {
        const double p = trace.probability(layer, head, query, key);
        const bool seen = key >= begin || std::find(kept.begin(), kept.end(), key) != kept.end();
        if (seen) left += p;
        for (int c = 0; c < dim; ++c) {
          const double value = trace.value(layer, kv_head, key)[c];
          dense[c] += p * value;
          if (seen) sparse[c] += p * value;
        }
      }
      for (int c = 0; c < dim; ++c) {
        distance += (dense[c] - sparse[c] / left) * (dense[c] - sparse[c] / left);
        length += dense[c] * dense[c];
      }
    }
    m.error += std::sqrt(distance / length) / group;
  }
  return m;
}

// The point by plain means over the cells in which not all keys fit.
void expect_plain_means(const SmallTrace& trace, const std::string& text, std::int64_t budget,
                        const std::vector<int>& layers, const std::vector<int>& heads,
                        const SweepPoint& point) {
  replay::ReplayRequest request{spec_of(trace, text), layers, {}, {}, false, false};
  const replay::ReplayResult sets = replay::replay(trace.session(), request, {});
  Measured sum;
  double kept = 0;
  int cells = 0, dense = 0;
  for (const replay::ReplayCell& cell : sets.cells)
    for (const int head : heads) {
      if (cell.span.begin <= budget) {
        ++dense;
        continue;
      }
      const auto& selected = cell.rows[static_cast<std::size_t>(head)].positions;
      const Measured m =
          measured(trace, cell.layer, head, cell.span.begin, cell.span.end(), selected);
      sum.recall += m.recall;
      sum.overlap += m.overlap;
      sum.error += m.error;
      kept += static_cast<double>(selected.size());
      ++cells;
    }
  SCOPED_TRACE(text);
  ASSERT_EQ(point.cells, cells);
  EXPECT_EQ(point.dense_cells, dense);
  EXPECT_EQ(point.budget, budget);
  EXPECT_NEAR(point.value(Number::EffectiveBudget), kept / cells, 1e-9);
  EXPECT_NEAR(point.value(Number::MassRecall), sum.recall / cells, 1e-5);
  EXPECT_NEAR(point.value(Number::TopkOverlap), sum.overlap / cells, 1e-9);
  EXPECT_NEAR(point.value(Number::OutputError), sum.error / cells, 1e-4);
}

TEST(BudgetSweep, PointsAreMeansOfPlainLoops) {
  const SmallTrace trace;
  const std::vector<std::string> texts = {"quoka:budget_tokens=4", "quoka:budget_tokens=20",
                                          "oracle:budget_tokens=20", "random:budget_tokens=9"};
  const std::vector<std::int64_t> budgets = {4, 20, 20, 9};
  std::vector<MethodSpec> specs;
  for (const std::string& text : texts) specs.push_back(spec_of(trace, text));
  const SweepPass head = sweep_pass(trace.session(), specs, {{1}, 0}, {});
  const SweepPass layer = sweep_pass(trace.session(), specs, {{1}, {}}, {});
  const SweepPass all = sweep_pass(trace.session(), specs, {{0, 1}, {}}, {});
  ASSERT_EQ(head.points.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    expect_plain_means(trace, texts[i], budgets[i], {1}, {0}, head.points[i]);
    expect_plain_means(trace, texts[i], budgets[i], {1}, {0, 1}, layer.points[i]);
    expect_plain_means(trace, texts[i], budgets[i], {0, 1}, {0, 1}, all.points[i]);
  }
}

TEST(BudgetSweep, AMethodWithoutABudgetIsOnePointAndOneThatFitsAveragesNothing) {
  const SmallTrace trace;
  const SweepPass pass =
      sweep_pass(trace.session(),
                 {spec_of(trace, "xattention:lowering=union,block_size=8,stride=2,tau=0.5"),
                  spec_of(trace, "quoka:budget_tokens=48")},
                 {{0}, {}}, {});
  ASSERT_EQ(pass.points.size(), 2U);
  EXPECT_EQ(pass.points[0].budget, 0);
  EXPECT_GT(pass.points[0].value(Number::EffectiveBudget), 0);
  EXPECT_EQ(pass.points[1].cells, 0);
  EXPECT_TRUE(std::isnan(pass.points[1].value(Number::MassRecall)));
}

TEST(BudgetSweep, WhatTheTraceCannotServeIsSaidAndTheRestIsMeasured) {
  const SmallTrace trace;  // without probe queries
  const SweepPass pass = sweep_pass(
      trace.session(),
      {spec_of(trace, "infinipot:budget_tokens=8"), spec_of(trace, "oracle:budget_tokens=8")},
      {{0}, {}}, {});
  ASSERT_EQ(pass.unavailable.size(), 1U);
  ASSERT_EQ(pass.points.size(), 1U);
  EXPECT_EQ(pass.points[0].spec, spec_of(trace, "oracle:budget_tokens=8").canonical());
}

TEST(BudgetSweep, BudgetsDoubleThenHalveTheirGapsAndStayBelowThePast) {
  EXPECT_THAT(coarse_budgets(1920), ElementsAre(16, 32, 64, 128, 256, 512, 1024));
  EXPECT_THAT(finer_budgets(1920), ElementsAre(23, 45, 91, 181, 362, 724, 1448, 1919));
  EXPECT_THAT(coarse_budgets(1024), ElementsAre(16, 32, 64, 128, 256, 512));
  EXPECT_THAT(finer_budgets(1024), ElementsAre(23, 45, 91, 181, 362, 724, 1023));
  EXPECT_THAT(coarse_budgets(8), ElementsAre(2, 4));
  EXPECT_THAT(coarse_budgets(2), ElementsAre(1));
  EXPECT_THAT(finer_budgets(2), IsEmpty());
  EXPECT_THAT(coarse_budgets(0), IsEmpty());
  for (std::int64_t past = 1; past < 300; ++past)
    for (const std::int64_t budget : finer_budgets(past)) {
      EXPECT_LT(budget, past);
      const auto coarse = coarse_budgets(past);
      EXPECT_EQ(std::count(coarse.begin(), coarse.end(), budget), 0) << past;
    }
}

TEST(BudgetSweep, ATargetIsReachedFromWhereNoLargerBudgetMissesIt) {
  std::vector<SweepPoint> points(4);
  const std::array<double, 4> recalls{0.5, 0.9, 0.8, 0.97};  // 0.9 does not last
  const std::array<double, 4> errors{0.4, 0.1, 0.05, 0.02};
  for (std::size_t i = 0; i < 4; ++i) {
    points[i].budget = std::int64_t{16} << i;
    points[i].numbers.set(Number::MassRecall, recalls[i]);
    points[i].numbers.set(Number::OutputError, errors[i]);
  }
  const auto ninety = reached_from(points, Number::MassRecall, kSweepTargets[0]);
  ASSERT_TRUE(ninety);
  EXPECT_EQ(ninety->below, 64);
  EXPECT_EQ(ninety->at, 128);
  EXPECT_EQ(reached_from(points, Number::MassRecall, kSweepTargets[1])->at, 128);
  EXPECT_FALSE(reached_from(points, Number::MassRecall, kSweepTargets[2]));
  EXPECT_EQ(reached_from(points, Number::OutputError, kSweepTargets[0])->at, 32);
  EXPECT_EQ(reached_from(points, Number::OutputError, kSweepTargets[1])->below, 32);
  EXPECT_FALSE(reached_from(points, Number::TopkOverlap, kSweepTargets[0]));  // not known
  EXPECT_FALSE(reached_from({}, Number::MassRecall, kSweepTargets[0]));
  for (SweepPoint& point : points) point.numbers.set(Number::MassRecall, 0.91);
  EXPECT_EQ(reached_from(points, Number::MassRecall, kSweepTargets[0])->below, 0);
  EXPECT_EQ(reached_from(points, Number::MassRecall, kSweepTargets[0])->at, 16);
}

// Decode steps come after the prompt, and are averaged apart.
TEST(LongestPast, IsThatOfTheLastChunkOfThePhase) {
  using trace::Phase;
  trace::TraceInfo info;
  info.chunks = {{0, 16, Phase::Prefill}, {16, 16, Phase::Prefill}, {32, 16, Phase::Prefill},
                 {48, 6, Phase::Prefill}, {54, 1, Phase::Decode},   {55, 1, Phase::Decode}};
  EXPECT_EQ(longest_past(info), 48);
  EXPECT_EQ(longest_past(info, {1, 2}), 32);
  EXPECT_EQ(longest_past(info, {2, 3, 4, 5}), 48);
  EXPECT_EQ(longest_past(info, {2, 3, 4, 5}, Phase::Decode), 55);
  EXPECT_EQ(longest_past(info, {}, Phase::Decode), 55);
}

}  // namespace
}  // namespace kvloupe::analysis
