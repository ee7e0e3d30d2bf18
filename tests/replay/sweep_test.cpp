// Sweeps: what is gone through, that each row is that of the method alone, and what is enough.
#include "core/replay/sweep.h"
#include "core/base/error.h"
#include "tests/base/matchers.h"
#include "tests/replay/small_trace.h"

namespace kvloupe::replay {
namespace {

using selection::MethodSpec;
using testing::SmallTrace;

using Texts = std::vector<std::string>;

std::vector<MethodName> specs_of(const Texts& texts) { return {texts.begin(), texts.end()}; }

SweepPlan plan_of(const Texts& methods, const Texts& sweeps) {
  std::vector<SweepAxis> axes;
  for (const std::string& sweep : sweeps) axes.push_back(parse_sweep(sweep));
  return plan_sweep(specs_of(methods), axes);
}

ErrorKind kind_of(const Texts& methods, const Texts& sweeps) {
  try {
    plan_of(methods, sweeps);
  } catch (const Error& error) {
    return error.kind();
  }
  return ErrorKind::Internal;
}

TEST(Sweep, ReadsListsAndRangesOfDoubles) {
  EXPECT_THAT(parse_sweep("budget_tokens=32..1024").values,
              ElementsAre("32", "64", "128", "256", "512", "1024"));
  EXPECT_THAT(parse_sweep("num_queries=4,8,9").values, ElementsAre("4", "8", "9"));
  EXPECT_THAT(parse_sweep("budget_tokens=5..19,40").values, ElementsAre("5", "10", "40"));
  EXPECT_THAT(parse_sweep("alpha=0.1..0.8").values, ElementsAre("0.1", "0.2", "0.4", "0.8"));
  EXPECT_EQ(parse_sweep("chunk_size=7").name, "chunk_size");
  EXPECT_TRUE(parse_sweep("chunk_size=7").cuts_anew());
  for (const char* wrong : {"", "budget_tokens", "=4", "budget_tokens=", "budget_tokens=4,",
                            "budget_tokens=8..4", "budget_tokens=0..8", "budget_tokens=a..8",
                            "budget_tokens=4,x", "budget_tokens=4,4", "budget_tokens=4..8,8"})
    EXPECT_THROW(parse_sweep(wrong), Error) << wrong;
}

TEST(Sweep, GoesThroughTheProductOfTheAxesThatAMethodHas) {
  const SweepPlan plan = plan_of({"quoka:budget_ratio=0.5", "dense", "snapkv:window=8"},
                                 {"budget_tokens=8,16", "num_queries=2,4", "chunk_size=20"});
  Texts texts;
  for (const SweepVariant& variant : plan.variants) {
    EXPECT_EQ(variant.chunk_size, 20);
    texts.push_back(variant.name.spec->canonical());
  }
  ASSERT_EQ(texts.size(), 4U + 1 + 2);
  EXPECT_THAT(texts[1], HasSubstr("budget_tokens=8,budget_ratio=0,"));
  EXPECT_THAT(texts[1], HasSubstr("num_queries=4"));
  EXPECT_THAT(texts[2], HasSubstr("budget_tokens=16,budget_ratio=0,"));
  EXPECT_EQ(texts[4], "dense");
  EXPECT_THAT(texts[6], HasSubstr("budget_tokens=16,"));
  EXPECT_THAT(texts[6], HasSubstr("window=8"));
  EXPECT_EQ(plan.variants[3].values.size(), 3U);
  EXPECT_EQ(plan.variants[4].values.size(), 1U);
  EXPECT_THAT(plan.notes, ElementsAre(HasSubstr("one row each: dense"),
                                      HasSubstr("one row each: dense, snapkv")));
}

TEST(Sweep, RefusesWhatNoMethodTakes) {
  for (const char* sweep : {"nonesuch=1", "metric=1", "page_size=4", "num_queries=0,4",
                            "num_queries=1.5", "budget_ratio=2", "chunk_size=0", "chunk_size=1.5"})
    EXPECT_EQ(kind_of({"quoka"}, {sweep}), ErrorKind::Usage) << sweep;
  EXPECT_EQ(kind_of({"quoka"}, {"num_queries=1", "num_queries=2"}), ErrorKind::Usage);
  EXPECT_EQ(kind_of({"quoka"}, {"budget_tokens=8", "budget_ratio=0.5"}), ErrorKind::Usage);
  EXPECT_EQ(kind_of({"dense", "flash_prefill"}, {"budget_tokens=8"}), ErrorKind::Usage);
}

TEST(Sweep, EveryRowIsThatOfTheMethodAlone) {
  const SmallTrace trace;
  const SweepPlan plan =
      plan_of({"quoka:num_queries=2", "dense"}, {"budget_tokens=4..16", "chunk_size=10,16"});
  ReplayRequest request;
  request.want_output_error = true;
  const Comparison swept = compare_sweep(trace.session(), plan, request, {}, {});
  std::size_t seen = 0, last = 0;
  for (std::size_t i = 0; i < plan.variants.size(); ++i) {
    ReplayRequest alone = request;
    alone.chunk_size = plan.variants[i].chunk_size;
    for (const CompareRow& row :
         compare_methods(trace.session(), {plan.variants[i].name}, alone, {}, {}).rows) {
      const CompareRow& found = swept.rows[seen++];
      EXPECT_EQ(found.method_idx, i);
      EXPECT_EQ(found.method, row.method);
      EXPECT_EQ(found.scope, row.scope);
      EXPECT_EQ(found.index, row.index);
      EXPECT_EQ(found.cells, row.cells);
      EXPECT_EQ(found.numbers[Number::MassRecall], row.numbers[Number::MassRecall]);
      EXPECT_EQ(found.numbers[Number::OutputError], row.numbers[Number::OutputError]);
      ASSERT_EQ(found.sweep.size(), plan.variants[i].values.size());
      EXPECT_EQ(found.sweep.back().name, "chunk_size");
      EXPECT_EQ(found.sweep.back().value, plan.variants[i].chunk_size);
      last = i;
    }
  }
  EXPECT_EQ(seen, swept.rows.size());
  EXPECT_EQ(last, 3U * 2 + 2 - 1);
}

// A row of the variant: the first of the plan has budget 4 and 2 queries.
CompareRow row_of(std::size_t variant, double budget, double queries, double recall,
                  int layer = -1) {
  CompareRow row;
  row.method_idx = variant;
  row.phase = "prefill";
  row.scope = layer < 0 ? "all" : "layer";
  row.index = std::max(layer, 0);
  row.numbers.set(Number::MassRecall, recall);
  row.sweep = {{"budget_tokens", budget}, {"num_queries", queries}};
  return row;
}

TEST(Sweep, TheSmallestValueThatReachesTheTargetIsFoundByAxisAndPlace) {
  const SweepPlan plan =
      plan_of({"quoka", "quoka:metric=dot"}, {"budget_tokens=16,4,8", "num_queries=2,4"});
  // Budgets 16, 4, 8; recalls that fall again on the way.
  std::vector<CompareRow> rows = {row_of(0, 16, 2, 0.94), row_of(1, 16, 4, 0.97),
                                  row_of(2, 4, 2, 0.8),   row_of(3, 4, 4, 0.95),
                                  row_of(4, 8, 2, 0.96),  row_of(5, 8, 4, 0.9),
                                  row_of(6, 16, 2, 0.5),  row_of(0, 16, 2, 0.99, 1)};
  rows[6].numbers.set(Number::MassRecall, {});
  solve(plan, parse_target("mass_recall=0.95"), rows);
  const auto solved = [&](std::size_t row) {
    return std::pair(rows[row].solved[0].value, rows[row].solved[1].value);
  };
  using Value = std::optional<double>;
  EXPECT_EQ(solved(0), std::pair(Value(8), Value(4)));   // of 2 queries; of budget 16
  EXPECT_EQ(solved(1), std::pair(Value(4), Value(4)));   // of 4 queries
  EXPECT_EQ(solved(2), std::pair(Value(8), Value(4)));   // of budget 4
  EXPECT_EQ(solved(5), std::pair(Value(4), Value(2)));   // of budget 8
  EXPECT_EQ(solved(6), std::pair(Value(), Value()));     // the other method
  EXPECT_EQ(solved(7), std::pair(Value(16), Value(2)));  // the layer alone
  EXPECT_EQ(rows[0].solved[0].name, "budget_tokens");
}

TEST(Sweep, TargetsAreReachedFromTheRightSide) {
  CompareRow row;
  for (const Number number : {Number::OutputError, Number::MassRecall, Number::Gap})
    row.numbers.set(number, 0.5);
  EXPECT_TRUE(parse_target("mass_recall=0.5").is_reached(row));
  EXPECT_FALSE(parse_target("mass_recall=0.51").is_reached(row));
  EXPECT_TRUE(parse_target("output_error=0.5").is_reached(row));
  EXPECT_FALSE(parse_target("output_error=0.49").is_reached(row));
  EXPECT_TRUE(parse_target("gap=0.6").is_reached(row));
  EXPECT_FALSE(parse_target("topk_overlap=0").is_reached(row));  // not known
  for (const char* wrong : {"", "mass_recall", "mass_recall=", "mass_recall=x", "cells=4"})
    EXPECT_THROW(parse_target(wrong), Error) << wrong;
}

}  // namespace
}  // namespace kvloupe::replay
