// The question behind the view budget_sweep.
#include "app/state/questions/how_much/budget_sweep.h"

#include "app/state/questions/how_much/sweep_jump.h"
#include "core/replay/replay.h"
#include "core/trace/trace_writer.h"
#include "tests/replay/small_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

namespace kvloupe::state {
namespace {

using analysis::kSweepNumbers;
using analysis::kSweepTargets;
using replay::Number;
using replay::testing::SmallTrace;

class BudgetSweepTest : public ::testing::Test {
 protected:
  static Place open(const session::SessionPtr& session) {
    auto opened = std::make_shared<OpenTrace>();
    opened->id = 1;
    opened->name = "small.h5";
    opened->session = session;
    Place place;
    place.trace = opened;
    return place;
  }
  BudgetSweepQuestion question(const std::string& a, const std::string& b = "") {
    BudgetSweepQuestion question;
    question.place = open(session::SessionPtr(session::SessionPtr(), &trace_.session()));
    question.slots[0] = choice_of_spec(a, *question.place.trace);
    if (!b.empty()) question.slots[1] = choice_of_spec(b, *question.place.trace);
    return question;
  }
  std::shared_ptr<const BudgetSweepQuestion::Answer> answer(const BudgetSweepQuestion& question) {
    return answers_.need(question, WorkContext{});
  }
  static const SweepCurve& curve_of(const BudgetSweepQuestion::Answer& answer,
                                    const std::string& id) {
    const auto found =
        std::find_if(answer.curves.begin(), answer.curves.end(),
                     [&](const SweepCurve& curve) { return curve.method.id() == id; });
    if (found == answer.curves.end()) throw std::runtime_error("no curve of " + id);
    return *found;
  }

  SmallTrace trace_;
  Answers answers_;
};

TEST_F(BudgetSweepTest, AllBudgetsOfAMethodAreOneQuestion) {
  const auto key = [&](const std::string& a, const std::string& b = "") {
    return key_of(question(a, b));
  };
  EXPECT_EQ(key("quoka:budget_tokens=8"), key("quoka:budget_tokens=31"));
  EXPECT_EQ(key("quoka:budget_tokens=8"), key("quoka:budget_ratio=0.25"));
  EXPECT_NE(key("quoka:budget_tokens=8"), key("quoka:budget_tokens=8,num_queries=3"));
  EXPECT_NE(key("quoka:budget_tokens=8"), key("quoka:budget_tokens=8,budget_scope=all"));
  EXPECT_EQ(key("quoka", "snapkv"), key("snapkv", "quoka"));
  EXPECT_EQ(key("quoka", "oracle"), key("quoka"));  // a bound is drawn anyway
  EXPECT_NE(key("aqua:dim_ratio=0.5"), key("aqua:dim_ratio=0.75"));
}

TEST_F(BudgetSweepTest, TheKeyNamesThePlaceAsFarAsTheExtentSays) {
  BudgetSweepQuestion here = question("quoka"), there = here;
  there.place.q_head = 1;  // the same KV head
  there.place.chunk = 2;
  EXPECT_EQ(here.key(), there.key());
  there.place.q_head = 2;
  EXPECT_NE(here.key(), there.key());
  here.extent = there.extent = SweepExtent::Layer;
  EXPECT_EQ(here.key(), there.key());
  there.place.layer = 1;
  EXPECT_NE(here.key(), there.key());
  here.extent = there.extent = SweepExtent::Trace;
  EXPECT_EQ(here.key(), there.key());
  EXPECT_EQ(BudgetSweepQuestion{}.obstacle(), "Open a trace");
}

// A prompt of one chunk; what is decoded after it has a past.
TEST_F(BudgetSweepTest, APromptOfOneChunkIsRefusedForItselfAlone) {
  const SmallTrace trace({.chunk_lengths = {16}, .decoded = 3});
  BudgetSweepQuestion asked;
  asked.place = open(session::SessionPtr(session::SessionPtr(), &trace.session()));
  EXPECT_EQ(asked.obstacle(), "The prompt is one chunk: no key lies before it.");
  asked.chunks.range = ChunkRange{2, 2};
  EXPECT_EQ(asked.obstacle(), "");
  asked.chunks.range = ChunkRange{0, 0};
  EXPECT_EQ(asked.obstacle(), "No key lies before this chunk.");
}

TEST_F(BudgetSweepTest, ABudgetReplacesTokensAndRatioAndNothingElse) {
  const Place place = question("quoka").place;
  const auto shape = place.trace->shape();
  for (const char* text : {"quoka:budget_ratio=0.3,num_queries=5,budget_scope=all",
                           "quoka:budget_tokens=99,num_queries=5,budget_scope=all"}) {
    const MethodChoice method = choice_of_spec(text, *place.trace);
    EXPECT_EQ(with_budget(method, 7, shape).canonical(),
              selection::MethodSpec::parse("quoka:budget_tokens=7,num_queries=5,budget_scope=all")
                  .resolved(shape)
                  .canonical());
  }
}

TEST_F(BudgetSweepTest, TheOracleNeedsWhatSortingTheMassSays) {
  BudgetSweepQuestion asked = question("quoka:budget_tokens=8");
  asked.place.layer = 1;
  asked.place.q_head = 3;  // KV head 1
  const auto result = answer(asked);
  EXPECT_TRUE(result->exact);
  const SweepCurve& oracle = curve_of(*result, "oracle");
  // Mean share of the `budget` heaviest past keys over the chunks that have more.
  const auto recall = [&](int budget) {
    double sum = 0;
    int cells = 0;
    for (const auto& chunk : trace_.session().info().chunks) {
      if (chunk.begin <= budget) continue;
      std::vector<double> mass = trace_.mass(1, 1, chunk.begin, chunk.end());
      mass.resize(static_cast<std::size_t>(chunk.begin));
      std::sort(mass.begin(), mass.end(), std::greater<>());
      double all = 0, top = 0;
      for (int i = 0; i < chunk.begin; ++i) {
        all += mass[i];
        if (i < budget) top += mass[i];
      }
      sum += top / all;
      ++cells;
    }
    return sum / cells;
  };
  ASSERT_TRUE(oracle.enough[0][0]);
  for (std::size_t t = 0; t < kSweepTargets.size(); ++t) {
    if (!oracle.enough[0][t]) {
      for (int budget = 1; budget < 48; ++budget) EXPECT_LT(recall(budget), kSweepTargets[t].share);
      continue;
    }
    const auto budget = static_cast<int>(*oracle.enough[0][t]);
    EXPECT_GE(recall(budget), kSweepTargets[t].share);
    if (budget > 1) {
      EXPECT_LT(recall(budget - 1), kSweepTargets[t].share);
    }
  }
  for (const analysis::SweepPoint& point : oracle.points)
    EXPECT_NEAR(point.value(Number::MassRecall), recall(static_cast<int>(point.budget)), 1e-5);
}

TEST_F(BudgetSweepTest, OneKeyLessThanEnoughMissesTheTargetAndWasTried) {
  const auto result = answer(question("quoka:budget_tokens=8", "snapkv:budget_tokens=8,window=4"));
  ASSERT_EQ(result->curves.size(), 4U);  // with the bounds
  for (const SweepCurve& curve : result->curves)
    for (std::size_t m = 0; m < kSweepNumbers.size(); ++m)
      for (std::size_t t = 0; t < kSweepTargets.size(); ++t) {
        if (!curve.enough[m][t]) continue;
        const auto at = std::find_if(curve.points.begin(), curve.points.end(), [&](const auto& p) {
          return p.budget == *curve.enough[m][t];
        });
        ASSERT_NE(at, curve.points.end());
        EXPECT_TRUE(
            analysis::reaches(kSweepNumbers[m], at->value(kSweepNumbers[m]), kSweepTargets[t]));
        if (at->budget == 1) continue;
        ASSERT_NE(at, curve.points.begin());
        EXPECT_EQ((at - 1)->budget, at->budget - 1) << curve.name;
        EXPECT_FALSE(analysis::reaches(kSweepNumbers[m], (at - 1)->value(kSweepNumbers[m]),
                                       kSweepTargets[t]));
        for (auto later = at; later != curve.points.end(); ++later)
          EXPECT_TRUE(analysis::reaches(kSweepNumbers[m], later->value(kSweepNumbers[m]),
                                        kSweepTargets[t]));
      }
}

TEST_F(BudgetSweepTest, LayersAndTracesStayOnTheBudgetsComputed) {
  BudgetSweepQuestion asked = question("quoka");
  for (const SweepExtent extent : {SweepExtent::Layer, SweepExtent::Trace}) {
    asked.extent = extent;
    const auto result = answer(asked);
    EXPECT_FALSE(result->exact);
    EXPECT_EQ(result->num_layers, extent == SweepExtent::Layer ? 1 : 2);
    std::vector<std::int64_t> budgets;
    for (const auto& point : curve_of(*result, "quoka").points) budgets.push_back(point.budget);
    EXPECT_EQ(budgets, (std::vector<std::int64_t>{8, 11, 16, 23, 32, 45, 47}));
  }
}

TEST_F(BudgetSweepTest, LinesNameAAndBAsTheyAreNow) {
  const auto labels = [&](const BudgetSweepQuestion& asked) {
    const auto result = answer(asked);
    std::vector<std::string> found;
    for (const SweepLine& line : sweep_lines(asked, *result)) found.push_back(line.label);
    return found;
  };
  const std::string oracle = "oracle (true top keys)", random = "random (one draw)";
  using Labels = std::vector<std::string>;
  EXPECT_EQ(labels(question("snapkv:window=4", "quoka")),
            (Labels{"A: snapkv", "B: quoka", oracle, random}));
  EXPECT_EQ(labels(question("quoka", "snapkv:window=4")),
            (Labels{"A: quoka", "B: snapkv", oracle, random}));
  EXPECT_EQ(labels(question("quoka:budget_tokens=8", "quoka:budget_tokens=9")),
            (Labels{"A, B: quoka", oracle, random}));
  EXPECT_EQ(labels(question("oracle", "quoka")), (Labels{"A: oracle", "B: quoka", random}));
}

TEST_F(BudgetSweepTest, TheFindingNamesTheBudgetsOfTheLeastTarget) {
  const auto asked = question("snapkv:window=4", "quoka");
  const auto result = answer(asked);
  const auto enough = [&](const char* id) {
    return std::to_string(*curve_of(*result, id).enough_of(Number::MassRecall).front());
  };
  const auto lines = sweep_lines(asked, *result);
  EXPECT_EQ(sweep_finding(lines, Number::MassRecall, true),
            "Keys per row for 90 % recall: snapkv " + enough("snapkv") + ", quoka " +
                enough("quoka") + ", the true top keys " + enough("oracle") + ".");
  EXPECT_EQ(sweep_finding({}, Number::MassRecall, true), "");
  // Of one method on both sides the letters are no name.
  const auto same = question("quoka:budget_tokens=8", "quoka:budget_tokens=9");
  const auto both = answer(same);
  EXPECT_THAT(sweep_finding(sweep_lines(same, *both), Number::MassRecall, false),
              testing::StartsWith("Keys per row for 90 % recall, so far: quoka "));
}

TEST_F(BudgetSweepTest, AJumpIsTheLargestStepBetweenTwoBudgets) {
  SweepCurve curve;
  curve.name = "snapkv";
  for (const auto& [budget, recall] :
       std::vector<std::pair<int, double>>{{16, 0.1}, {24, 0.35}, {32, 0.4}, {48, 0.9}}) {
    analysis::SweepPoint point;
    point.spec = "snapkv:budget_tokens=" + std::to_string(budget);
    point.budget = budget;
    point.numbers.set(Number::MassRecall, recall);
    curve.points.push_back(point);
  }
  const auto jump = largest_jump(curve);
  ASSERT_TRUE(jump);
  EXPECT_EQ(jump->below->budget, 32);
  EXPECT_EQ(jump->above->budget, 48);
  EXPECT_NEAR(jump->gain(), 0.5, 1e-9);

  BudgetSweepQuestion sweep = question("quoka:budget_tokens=8");
  EXPECT_FALSE(sweep_jump_question(sweep, curve)) << "all chunks";
  sweep.chunks.range = ChunkRange{2, 2};
  const auto asked = sweep_jump_question(sweep, curve);
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->place.chunk, 2);
  EXPECT_EQ(asked->above, "snapkv:budget_tokens=48");
  EXPECT_EQ(words_of(*asked, {}, curve), "") << "no key makes it";
  EXPECT_EQ(words_of(*asked, {.key = 3, .share = 0.45}, curve),
            "snapkv jumps between 32 and 48 keys: it comes to keep key 3, which has 45.0 % of the "
            "mass.");
  curve.points.resize(1);
  EXPECT_FALSE(sweep_jump_question(sweep, curve));
}

// The oracle keeps the heaviest keys first: with one key more it is the next one of the sorted mass.
TEST_F(BudgetSweepTest, TheKeyOfAJumpIsTheNewOneWithMostMass) {
  const trace::ChunkInfo& chunk = trace_.session().info().chunks.back();
  const std::vector<double> mass = trace_.mass(1, 1, chunk.begin, chunk.end());
  std::vector<std::int32_t> order(static_cast<std::size_t>(chunk.begin));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](std::int32_t a, std::int32_t b) { return mass[a] > mass[b]; });
  const double all = std::accumulate(mass.begin(), mass.begin() + chunk.begin, 0.0);
  SweepJumpQuestion asked;
  asked.place = question("quoka:budget_tokens=8").place;
  asked.place.layer = 1;
  asked.place.q_head = 3;  // KV head 1
  asked.place.chunk = static_cast<int>(trace_.session().info().chunks.size()) - 1;
  for (const std::size_t kept : {1U, 3U}) {
    asked.below = "oracle:budget_tokens=" + std::to_string(kept);
    asked.above = "oracle:budget_tokens=" + std::to_string(kept + 2);
    asked.gain = (mass[order[kept]] + mass[order[kept + 1]]) / all;
    const auto answer = answers_.need(asked, WorkContext{});
    EXPECT_EQ(answer->key, order[kept]);
    EXPECT_NEAR(answer->share, mass[order[kept]] / all, 1e-5);
  }
  // What brings less than half of the jump does not make it.
  asked.above = "oracle:budget_tokens=6";
  asked.gain = 0.9;
  EXPECT_EQ(answers_.need(asked, WorkContext{})->key, -1);
}

// From chunk 2 to the last decode step: what is averaged is of the prompt, which has 48 keys before its last chunk.
TEST_F(BudgetSweepTest, ThePastIsThatOfThePhaseThatIsAveraged) {
  const SmallTrace decoded({.decoded = 2});
  BudgetSweepQuestion asked;
  asked.place = open(session::SessionPtr(session::SessionPtr(), &decoded.session()));
  asked.chunks = {NumberScope::Kind::Range, true, ChunkRange{2, 5}};
  EXPECT_EQ(asked.phase(), trace::Phase::Prefill);
  EXPECT_EQ(asked.past(), 48);
  asked.chunks.range = {4, 5};
  EXPECT_EQ(asked.past(), 54);
}

TEST_F(BudgetSweepTest, CurvesOfOneMethodAreToldApart) {
  const auto result = answer(question("quoka:num_queries=3", "quoka:num_queries=5"));
  std::vector<std::string> names;
  for (const SweepCurve& curve : result->curves) names.push_back(curve.name);
  EXPECT_EQ(names, (std::vector<std::string>{"oracle", "quoka num_queries=3", "quoka num_queries=5",
                                             "random"}));
}

TEST_F(BudgetSweepTest, ALaneMethodHasAnErrorAloneAndWhatCannotBeServedSaysWhy) {
  const auto result = answer(question("aqua:basis=self", "infinipot:budget_tokens=8"));
  const SweepCurve& lanes = curve_of(*result, "aqua");
  ASSERT_EQ(lanes.points.size(), 1U);
  EXPECT_TRUE(std::isnan(lanes.points[0].value(Number::MassRecall)));
  EXPECT_GT(lanes.points[0].value(Number::OutputError), 0);
  EXPECT_FALSE(lanes.enough[2][0]);  // there is no budget to name
  const SweepCurve& unserved = curve_of(*result, "infinipot");
  EXPECT_TRUE(unserved.points.empty());
  EXPECT_NE(unserved.problem.find("probe"), std::string::npos);
}

TEST_F(BudgetSweepTest, ARunOfAMethodUnknownToThisVersionIsOnePoint) {
  const session::TraceSession& session = trace_.session();
  const auto spec = selection::MethodSpec::parse("quoka:budget_tokens=8").resolved(session.shape());
  const replay::ReplayResult made = replay::replay(session, {spec, {}, {}, {}, true, true}, {});
  trace::RunInfo run = replay::run_info(made, spec, session.shape());
  run.method = "from_the_future:depth=3";
  trace::append_sidecar_run(session.info().path, run, made.layers, replay::layer_records(made));
  BudgetSweepQuestion asked;
  asked.place = open(std::make_shared<session::TraceSession>(session.info().path));
  asked.slots[0] = choice_of_run(asked.place.info().runs.front(), *asked.place.trace);
  ASSERT_FALSE(asked.slots[0].known());
  const auto result = answer(asked);
  const SweepCurve& curve = curve_of(*result, "from_the_future");
  EXPECT_FALSE(curve.has_budget());
  ASSERT_EQ(curve.points.size(), 1U);
  EXPECT_EQ(curve.points[0].value(Number::EffectiveBudget), 8);
  // It is measured as the same sets are under the name that is known.
  const auto known = answer(question("quoka:budget_tokens=8"));
  for (const auto& point : curve_of(*known, "quoka").points)
    if (point.budget == 8) {
      EXPECT_NEAR(curve.points[0].value(Number::MassRecall), point.value(Number::MassRecall), 1e-6);
      EXPECT_NEAR(curve.points[0].value(Number::OutputError), point.value(Number::OutputError),
                  1e-6);
    }
}

}  // namespace
}  // namespace kvloupe::state
