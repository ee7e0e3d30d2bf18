// Methods as the window has them: recorded runs, SPECs selected anew, runs that nobody knows; and
// what is said of each.
#include "app/state/method_draft.h"
#include "app/state/method_groups.h"
#include "app/state/questions/how_it_ran/runs.h"
#include "app/state/questions/how_much/latency.h"
#include "app/state/questions/kept/kv_map.h"
#include "app/state/questions/kept/selected_vs_true.h"
#include "app/state/view_list.h"
#include "core/base/error.h"
#include "tests/base/matchers.h"
#include "tests/state/workspace_fixture.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace kvloupe {
namespace {

using state::ResultState;
using state::Slot;

class Methods : public test::WorkspaceTest {
 protected:
  state::Result<state::KvMapQuestion> map_of(Slot slot = Slot::A) {
    return answer_to(state::KvMapQuestion{place(), workspace.method(slot)});
  }
};

TEST_F(Methods, ASpecOfARecordedRunShowsTheRunAnotherOneSelectsAnew) {
  open();
  const std::string recorded = workspace.method(Slot::B).text;
  workspace.cursor.set_method(Slot::A, "streaming_llm:budget_tokens=256");
  EXPECT_EQ(workspace.method(Slot::A).run, 1);
  EXPECT_EQ(workspace.method(Slot::A).text, recorded);
  workspace.cursor.set_method(Slot::A, "streaming_llm:budget_tokens=128");
  EXPECT_EQ(workspace.method(Slot::A).run, -1);
  EXPECT_THROW(workspace.cursor.set_method(Slot::A, "streaming_llm:budget=1"), Error);
  EXPECT_THROW(workspace.cursor.set_method(Slot::A, "future_method"), Error);
  const auto map = map_of();
  ASSERT_EQ(map.state, ResultState::Ready) << map.error;
  EXPECT_EQ(map->map.kept[7], 128);
  const state::MethodFacts& facts = map->facts;
  EXPECT_EQ(facts.mode, trace::LoopMode::OpenLoop);
  EXPECT_EQ(facts.requested_budget, 128.0);
  EXPECT_EQ(facts.effective_budget, 128.0);
  EXPECT_EQ(facts.dense_cells, 2);  // nothing before chunk 0; 128 keys before chunk 1 fit
  EXPECT_EQ(facts.scope, "past");
}

// What a run selected is the same, read or made again.
TEST_F(Methods, ARecordedRunIsShownAsTheSameMethodSelectedAnewWouldBe) {
  open();
  for (const int run : {0, 1, 2}) {
    workspace.cursor.set_run(Slot::A, run);
    const auto recorded = map_of();
    ASSERT_TRUE(recorded) << recorded.error;
    state::MethodChoice anew = workspace.method(Slot::A);
    anew.run = -1;
    workspace.cursor.set_method(Slot::A, anew);
    const auto live = map_of();
    ASSERT_TRUE(live) << live.error;
    EXPECT_NE(recorded.key, live.key);
    EXPECT_EQ(recorded->map.kept, live->map.kept) << anew.text;
    EXPECT_EQ(recorded->map.evict_chunk, live->map.evict_chunk) << anew.text;
  }
}

TEST_F(Methods, TheMapKnowsAfterWhichChunkAKeyDied) {
  open();
  workspace.cursor.set_method(Slot::A, "streaming_llm:budget_tokens=128");
  const auto map = map_of();
  ASSERT_EQ(map.state, ResultState::Ready);
  // 4 sinks and the 124 newest keys live on: keys 4 to 131 die after chunk 1, the next after 2.
  EXPECT_EQ(map->map.death_of(0), std::nullopt);
  EXPECT_EQ(map->map.death_of(4), 1);
  EXPECT_EQ(map->map.death_of(131), 1);
  EXPECT_EQ(map->map.death_of(132), 2);
  EXPECT_EQ(map->map.death_of(999), std::nullopt);
  EXPECT_TRUE(map->facts.evicts);
}

TEST_F(Methods, AnUnknownRunIsShownAndNoMore) {
  open();
  workspace.cursor.set_run(Slot::A, 3);
  const state::MethodChoice& choice = workspace.method(Slot::A);
  EXPECT_EQ(choice.text, test::kUnknownMethod);
  EXPECT_FALSE(choice.known());
  EXPECT_TRUE(choice.recorded());
  EXPECT_EQ(choice.id(), "future_method");
  EXPECT_EQ(state::short_label(choice), "future_method");
  const auto map = map_of();
  ASSERT_TRUE(map) << map.error;
  EXPECT_EQ(map->map.kept[7], 200);
  EXPECT_FALSE(map->facts.choice.known());
  EXPECT_EQ(map->facts.requested_budget, std::nullopt);
  EXPECT_EQ(map->facts.effective_budget, 200.0);
  const auto verdict = answer_to(state::SelectedVsTrueQuestion{place(), workspace.method(Slot::A)});
  ASSERT_TRUE(verdict) << verdict.error;
  EXPECT_EQ(verdict->kept(), 200);
  EXPECT_TRUE(answer_to(state::RunSummaryQuestion{place(), choice}));
  EXPECT_THAT(state::LatencyQuestion({place(), choice}).obstacle(), HasSubstr("does not know"));
  for (const state::ViewInfo& view : state::views())
    for (int frame = 0; frame < 4; ++frame) {
      workspace.begin_frame();
      EXPECT_NO_THROW(view.problem(workspace)) << view.id;
      test::settle(workspace);
      if (view.table != nullptr) {
        EXPECT_NO_THROW(view.table(workspace)) << view.id;
      }
      if (view.array != nullptr) {
        EXPECT_NO_THROW(view.array(workspace)) << view.id;
      }
    }
}

// A trace opened beside it does not have that run: what it has is shown.
TEST_F(Methods, AnUnknownRunIsNotCarriedToATraceWithoutIt) {
  open();
  workspace.cursor.set_run(Slot::A, 3);
  workspace.cursor.set_method(Slot::B, "keydiff:budget_tokens=64");
  open(short_trace());
  EXPECT_EQ(workspace.method(Slot::A).id(), "quoka");
  EXPECT_EQ(workspace.method(Slot::A).run, 0);
  // Nor is what was tried on the other one.
  EXPECT_EQ(workspace.method(Slot::B).id(), "oracle");
}

TEST_F(Methods, TriedOnesStayListedOnceNewestLast) {
  open();
  const auto tried = [&] {
    std::vector<std::string> ids;
    for (const state::MethodChoice& choice : workspace.traces.active()->tried)
      ids.push_back(choice.id());
    return ids;
  };
  workspace.cursor.set_method(Slot::A, "keydiff:budget_tokens=64");
  workspace.cursor.set_method(Slot::B, "snapkv:budget_tokens=64");
  workspace.cursor.set_method(Slot::B, "keydiff:budget_tokens=64");
  workspace.cursor.set_run(Slot::A, 0);
  EXPECT_EQ(tried(), (std::vector<std::string>{"snapkv", "keydiff"}));
  for (int budget = 10; budget < 40; ++budget)
    workspace.cursor.set_method(Slot::A, "h2o:budget_tokens=" + std::to_string(budget));
  EXPECT_EQ(tried().size(), 12U);
}

TEST_F(Methods, ThoseThatTheTraceCannotServeHaveAReason) {
  open();
  const auto reasons = answer_to(state::UnavailableQuestion{place()});
  ASSERT_EQ(reasons.state, ResultState::Ready) << reasons.error;
  ASSERT_EQ(reasons->count("infinipot"), 1U);
  EXPECT_THAT(reasons->at("infinipot"), HasSubstr("probe"));
  EXPECT_EQ(reasons->count("quoka"), 0U);
  workspace.cursor.set_method(Slot::A, "infinipot:budget_tokens=64");
  const auto map = map_of();
  EXPECT_EQ(map.state, ResultState::Error);
  EXPECT_THAT(map.error, HasSubstr("probe"));
}

TEST_F(Methods, AFailingAnalysisIsAnErrorWithItsSentence) {
  test::GuiTraceOptions options = whole_options();
  options.nan_key_at = 300;
  open(test::write_gui_trace("methods_nan.h5", options));
  // A recorded run is read, which no broken key hinders; selecting anew has to look at it.
  EXPECT_EQ(map_of().state, ResultState::Ready);
  workspace.cursor.set_method(Slot::A, "keydiff:budget_tokens=64");
  const auto map = map_of();
  EXPECT_EQ(map.state, ResultState::Error);
  EXPECT_THAT(map.error, HasSubstr("position 300"));
  EXPECT_EQ(state::problem_of(map), map.error);
}

TEST_F(Methods, LatencyIsMeasuredByHandForItsCellAlone) {
  open();
  const state::LatencyQuestion question{place(), workspace.method(Slot::A)};
  EXPECT_EQ(workspace.ask(question).state, ResultState::Empty);
  workspace.answers.start(question);
  for (int i = 0; i < 2000 && !workspace.ask(question); ++i) {
    workspace.begin_frame();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_TRUE(workspace.ask(question));
  EXPECT_EQ(workspace.ask(question)->layer, place().layer);
  workspace.answers.stop(question);
  test::settle(workspace);
  EXPECT_FALSE(workspace.answers.measuring());
  EXPECT_EQ(workspace.ask(question).state, ResultState::Ready);
  workspace.cursor.set_chunk(2);
  EXPECT_EQ(workspace.ask(state::LatencyQuestion{place(), workspace.method(Slot::A)}).state,
            ResultState::Empty);
}

TEST(MethodDraft, ParametersOfTheCatalogueMakeAValidSpec) {
  const selection::ModelShape shape{30, 9, 3, 64};
  for (const selection::MethodInfo& info : selection::catalogue()) {
    state::MethodDraft draft("quoka:budget_tokens=77", shape);
    draft.change_method(info.id, shape, 4096);
    EXPECT_EQ(draft.id(), info.id);
    const bool needs_path = std::any_of(info.params.begin(), info.params.end(), [](const auto& p) {
      return p.type == selection::ParamType::Path && p.default_text.empty();
    });
    if (!needs_path) {
      EXPECT_EQ(draft.problem(), "") << draft.spec();
    }
    if (info.budget == selection::BudgetUse::Required) {
      EXPECT_EQ(draft.value("budget_tokens"), "77") << info.id;
    } else if (info.budget == selection::BudgetUse::Optional) {
      EXPECT_EQ(draft.value("budget_tokens"), "0") << info.id;
    }
  }
}

// As `export` and the window's first methods have it.
TEST(MethodDraft, HasTheDefaultBudgetWhereNoneIsNamed) {
  const selection::ModelShape shape{30, 9, 3, 64};
  for (const char* before : {"dense", "flash_prefill", "aqua:basis=self"})
    for (const auto& [tokens, budget] :
         {std::pair{4096, "1024"}, std::pair{800, "100"}, std::pair{60, "16"}}) {
      state::MethodDraft draft(before, shape);
      draft.change_method("quoka", shape, tokens);
      EXPECT_EQ(draft.value("budget_tokens"), budget) << before;
      EXPECT_EQ(draft.problem(), "") << before;
      draft.set("budget_tokens", "77");
      EXPECT_EQ(draft.defaults(shape, tokens).value("budget_tokens"), budget);
    }
  state::MethodDraft by_ratio("quoka:budget_ratio=0.25", shape);
  by_ratio.change_method("keydiff", shape, 800);
  EXPECT_EQ(by_ratio.value("budget_tokens"), "0");
  EXPECT_EQ(by_ratio.value("budget_ratio"), "0.25");
  EXPECT_EQ(state::default_spec(4096), "quoka:budget_tokens=1024");
  EXPECT_EQ(state::default_spec(800), "quoka:budget_tokens=100");
}

TEST(MethodDraft, TheLastBudgetComesBackAfterAMethodWithoutOne) {
  const selection::ModelShape shape{30, 9, 3, 64};
  for (const auto& [name, value] : {std::pair{"budget_tokens", "10"}, {"budget_ratio", "0.25"}})
    for (const char* between : {"dense", "flash_prefill"}) {
      state::MethodDraft draft("quoka:budget_tokens=77", shape);
      draft.set(name, value);
      draft.change_method(between, shape, 4096);
      draft.change_method("keydiff", shape, 4096);
      EXPECT_EQ(draft.value(name), value) << between;
      EXPECT_EQ(draft.problem(), "");
      // The choice was made elsewhere: a new draft stands for it.
      state::MethodDraft anew(between, shape);
      anew.keep_budget_of(draft);
      anew.change_method("keydiff", shape, 4096);
      EXPECT_EQ(anew.value(name), value) << between;
    }
}

TEST(MethodDraft, TokensAndRatioExcludeEachOther) {
  state::MethodDraft draft("quoka:budget_tokens=77", {30, 9, 3, 64});
  draft.set("budget_ratio", "0.25");
  EXPECT_EQ(draft.value("budget_tokens"), "0");
  EXPECT_EQ(draft.problem(), "");
  draft.set("budget_tokens", "32");
  EXPECT_EQ(draft.value("budget_ratio"), "0");
  draft.set("num_queries", "-3");
  EXPECT_NE(draft.problem(), "");
}

TEST(MethodGroups, AFewLettersFindAMethodUnderWhatItDoes) {
  std::size_t count = 0;
  for (const state::MethodGroup& group : state::method_groups("")) count += group.methods.size();
  EXPECT_EQ(count, selection::catalogue().size());
  const auto found = state::method_groups("aqua h2o");
  ASSERT_EQ(found.size(), 1U);
  ASSERT_EQ(found.front().methods.size(), 1U);
  EXPECT_EQ(found.front().methods.front()->id, "aqua_h2o");
  EXPECT_TRUE(state::method_groups("no such words").empty());
  const auto evicting = state::method_groups("tova");
  ASSERT_EQ(evicting.size(), 1U);
  EXPECT_EQ(evicting.front().title, "Evict keys for good");
}

TEST(MethodGroups, HelpNamesPaperEvidenceAndDeviations) {
  for (const selection::MethodInfo& method : selection::catalogue()) {
    const auto lines = state::help_of(method);
    ASSERT_GE(lines.size(), 5U) << method.id;
    for (const state::HelpLine& line : lines) EXPECT_FALSE(line.heading.empty()) << method.id;
    EXPECT_EQ(lines[0].text, method.paper);
    EXPECT_EQ(lines[1].text, method.evidence);
  }
  const auto label = [](const char* spec) {
    return state::short_label({spec, -1, selection::MethodSpec::parse(spec)});
  };
  EXPECT_EQ(label("aqua:dim_ratio=0.5"), "aqua  50 % of lanes");
  EXPECT_EQ(label("quoka:budget_tokens=256"), "quoka  256");
  EXPECT_EQ(label("keydiff:budget_ratio=0.25"), "keydiff  25 %");
}

// What tells two SPECs apart whose short labels are the same.
TEST(MethodGroups, TheParametersThatDifferAreNamed) {
  const auto own = [](const char* spec, const char* other) {
    const auto choice = [](const char* text) {
      return state::MethodChoice{text, -1, selection::MethodSpec::parse(text)};
    };
    return state::distinct_params(choice(spec), choice(other));
  };
  const char* few = "quoka:budget_tokens=256,num_queries=4";
  const char* many = "quoka:budget_tokens=256,num_queries=128,metric=dot";
  EXPECT_EQ(own(few, many), "num_queries=4, metric=cosine");
  EXPECT_EQ(own(many, few), "num_queries=128, metric=dot");
  EXPECT_EQ(own(few, few), "");
  EXPECT_EQ(own(few, "quoka:budget_tokens=128,num_queries=16"), "");
  EXPECT_EQ(own(few, "keydiff:budget_tokens=256"), "");
  EXPECT_EQ(own("dense", "dense"), "");
}

// In a list no two of them may be called the same.
TEST(MethodGroups, LabelsOfAListDiffer) {
  const auto choice = [](const char* text, int run) {
    return state::MethodChoice{text, run, selection::MethodSpec::parse(text)};
  };
  const std::vector<std::string> labels = state::distinct_labels(
      {choice("uniform_queries:budget_tokens=256,num_queries=16", 4),
       choice("uniform_queries:budget_tokens=256,num_queries=128", -1),
       choice("snapkv:budget_tokens=256", 1), choice("snapkv:budget_tokens=256", 6),
       choice("quoka:budget_tokens=256", 0)});
  EXPECT_THAT(labels, ElementsAre("uniform_queries  256  num_queries=16",
                                  "uniform_queries  256  num_queries=128", "snapkv  256  run 1",
                                  "snapkv  256  run 6", "quoka  256"));
}

// 2147483647 is what fits, not what anybody may want to know.
TEST(MethodGroups, ARangeWithoutAnEndNamesNone) {
  const selection::MethodInfo* quoka = selection::find_method("quoka");
  ASSERT_NE(quoka, nullptr);
  int budgets = 0;
  for (const selection::ParamInfo& param : selection::common_params(*quoka)) {
    const std::string help = state::help_of(param, "");
    EXPECT_THAT(help, Not(HasSubstr("2147483647"))) << param.name;
    if (param.name != "budget_tokens") continue;
    ++budgets;
    EXPECT_THAT(help, HasSubstr("from 0 on"));
  }
  EXPECT_EQ(budgets, 1);
}

}  // namespace
}  // namespace kvloupe
