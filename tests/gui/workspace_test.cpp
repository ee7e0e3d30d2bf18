// The workspace without a window: linked selection, history, methods, results and their states;
// token text; drafts.
#include "app/state/workspace.h"
#include "app/shell/command_list.h"
#include "app/shell/settings.h"
#include "app/state/method_draft.h"
#include "app/state/method_groups.h"
#include "app/state/token_text.h"
#include "core/base/error.h"
#include "core/base/paths.h"
#include "tests/gui/synthetic_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

namespace kvloupe {
namespace {

using state::ResultState;
using state::Slot;
using test::SyntheticSource;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class WorkspaceTest : public ::testing::Test {
 protected:
  WorkspaceTest()
      : source(std::make_shared<SyntheticSource>(options())),
        workspace(0, [this](const std::string& path, std::uint64_t) -> state::TraceSourcePtr {
          if (path.find("broken") != std::string::npos)
            throw input_error("broken.h5 cannot be opened", "it is no trace", "choose another");
          return source;
        }) {}

  static test::SyntheticOptions options() {
    test::SyntheticOptions o;
    o.num_tokens = 1000;  // the last chunk is shorter
    o.num_layers = 3;
    o.needle_begin = 400;
    o.needle_end = 416;
    return o;
  }
  void settle() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (workspace.busy() && std::chrono::steady_clock::now() < end) {
      workspace.publish();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    workspace.publish();
  }
  void open() {
    workspace.open("/a.h5");
    settle();
  }
  template <typename Ask>
  auto answer(Ask ask) {
    auto result = ask();
    for (int i = 0;
         i < 8 && result.state != ResultState::Ready && result.state != ResultState::Error; ++i) {
      settle();
      result = ask();
    }
    return result;
  }

  std::shared_ptr<SyntheticSource> source;
  state::Workspace workspace;
};

TEST_F(WorkspaceTest, OpensOnTheLastPrefillChunkWithTheFirstTwoRuns) {
  open();
  ASSERT_NE(workspace.ready(), nullptr);
  EXPECT_EQ(workspace.selection().chunk, 7);
  EXPECT_EQ(workspace.selection().choice(Slot::A).run, 0);
  EXPECT_EQ(workspace.selection().choice(Slot::B).run, 1);
  EXPECT_EQ(workspace.watched_span()->name, "needle");
}

TEST_F(WorkspaceTest, ADamagedFileIsAnErrorState) {
  workspace.open("/broken.h5");
  settle();
  ASSERT_NE(workspace.active(), nullptr);
  EXPECT_EQ(workspace.active()->state, ResultState::Error);
  EXPECT_THAT(workspace.active()->error, HasSubstr("it is no trace"));
  EXPECT_EQ(workspace.kv_map(Slot::A).state, ResultState::Empty);
}

TEST_F(WorkspaceTest, SettersClampToTheTrace) {
  open();
  workspace.set_chunk(99);
  EXPECT_EQ(workspace.selection().chunk, 7);
  workspace.step_chunk(-100);
  EXPECT_EQ(workspace.selection().chunk, 0);
  workspace.set_layer(7);
  EXPECT_EQ(workspace.selection().layer, 2);
  workspace.set_q_head(8);
  EXPECT_EQ(workspace.kv_head(), 2);
  workspace.set_key_span(990, 5000);
  EXPECT_EQ(workspace.selection().key_end, 1000);
}

TEST_F(WorkspaceTest, GotoGoesOrExplains) {
  open();
  workspace.go_to(state::parse_goto("layer=1,kv_head=2,chunk=3"));
  EXPECT_EQ(workspace.selection().layer, 1);
  EXPECT_EQ(workspace.selection().q_head, 6);
  EXPECT_EQ(workspace.selection().chunk, 3);
  workspace.go_to(state::parse_goto("query=999"));
  EXPECT_EQ(workspace.selection().chunk, 7);
  try {
    workspace.go_to(state::parse_goto("chunk=8"));
    FAIL() << "chunk 8 is not in the trace";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 1);
    EXPECT_THAT(error.what(), HasSubstr("0 to 7"));
  }
  for (const char* wrong :
       {"chunk", "chunk=", "chunk=x", "chunk=-1", "place=3", "chunk=3;layer=1"}) {
    try {
      state::parse_goto(wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2) << wrong;
    }
  }
}

TEST_F(WorkspaceTest, BackAndForwardWalkPlacesAndScrubbingIsOneStep) {
  open();
  workspace.set_chunk(6);
  workspace.set_chunk(5);
  workspace.set_chunk(4);
  workspace.set_layer(0);
  EXPECT_TRUE(workspace.back());
  EXPECT_EQ(workspace.selection().layer, 1);
  EXPECT_EQ(workspace.selection().chunk, 4);
  EXPECT_TRUE(workspace.back());
  EXPECT_EQ(workspace.selection().chunk, 7);
  EXPECT_FALSE(workspace.back());
  EXPECT_TRUE(workspace.forward());
  EXPECT_EQ(workspace.selection().chunk, 4);
  workspace.set_layer(2);  // a new way: the old one is forgotten
  EXPECT_FALSE(workspace.forward());
}

TEST_F(WorkspaceTest, ASpecOfARecordedRunShowsTheRunAnotherOneSelectsAnew) {
  open();
  workspace.set_method(Slot::A, "streaming_llm:budget_tokens=256");
  EXPECT_EQ(workspace.selection().choice(Slot::A).run, 1);
  workspace.set_method(Slot::A, "streaming_llm:budget_tokens=128");
  EXPECT_EQ(workspace.selection().choice(Slot::A).run, -1);
  EXPECT_THROW(workspace.set_method(Slot::A, "streaming_llm:budget=1"), Error);
  const auto map = answer([&] { return workspace.kv_map(Slot::A); });
  ASSERT_EQ(map.state, ResultState::Ready);
  EXPECT_EQ(map->map.kept[7], 128);
  const auto facts = workspace.facts(Slot::A);
  EXPECT_EQ(facts->mode, trace::LoopMode::OpenLoop);
  EXPECT_EQ(facts->requested_budget, 128.0);
  EXPECT_EQ(facts->effective_budget, 128.0);
  EXPECT_EQ(facts->dense_cells, 2);  // nothing before chunk 0; 128 keys before chunk 1 fit
  EXPECT_EQ(facts->scope, "past");
}

TEST_F(WorkspaceTest, TheLastResultStaysWhileTheNextIsComputed) {
  open();
  ASSERT_EQ(answer([&] { return workspace.query_geometry(); }).state, ResultState::Ready);
  source->behaviour = SyntheticSource::Behaviour::Wait;
  workspace.set_chunk(2);
  const auto waiting = workspace.query_geometry();
  EXPECT_EQ(waiting.state, ResultState::Loading);
  EXPECT_TRUE(waiting.stale);
  EXPECT_EQ(waiting->chunk, 7);
  // Going on supersedes the request; going back must ask again and be answered.
  workspace.set_chunk(3);
  workspace.query_geometry();
  workspace.set_chunk(2);
  workspace.query_geometry();
  source->behaviour = SyntheticSource::Behaviour::Answer;
  const auto done = answer([&] { return workspace.query_geometry(); });
  ASSERT_EQ(done.state, ResultState::Ready);
  EXPECT_EQ(done->chunk, 2);
  EXPECT_FALSE(done.stale);
}

TEST_F(WorkspaceTest, AFailingAnalysisIsAnErrorWithItsSentence) {
  open();
  source->behaviour = SyntheticSource::Behaviour::Fail;
  const auto result = answer([&] { return workspace.kv_map(Slot::A); });
  EXPECT_EQ(result.state, ResultState::Error);
  EXPECT_THAT(result.error, HasSubstr("the analysis failed"));
}

TEST_F(WorkspaceTest, TheOverviewFollowsMetricAndMethod) {
  open();
  workspace.change("metric",
                   [](state::Selection& s) { s.metric = analysis::OverviewMetric::MassRecall; });
  const auto recall = answer([&] { return workspace.overview(); });
  EXPECT_EQ(recall->values.cols, 3);
  workspace.change(
      "metric", [](state::Selection& s) { s.metric = analysis::OverviewMetric::RelevancePearson; });
  const auto pearson = answer([&] { return workspace.overview(); });
  EXPECT_EQ(pearson->values.cols, 9);
}

TEST_F(WorkspaceTest, SeveralTracesKeepTheirPlaces) {
  open();
  workspace.set_chunk(2);
  workspace.open("/b.h5");
  settle();
  EXPECT_EQ(workspace.tabs().size(), 2U);
  EXPECT_EQ(workspace.selection().chunk, 2);  // the place is carried over
  workspace.set_chunk(5);
  workspace.open("/a.h5");  // open already: shown
  EXPECT_EQ(workspace.tabs().size(), 2U);
  EXPECT_EQ(workspace.selection().chunk, 2);
  workspace.close_active();
  EXPECT_EQ(workspace.selection().chunk, 5);
  workspace.close_active();
  EXPECT_EQ(workspace.active(), nullptr);
  workspace.close_active();
}

TEST_F(WorkspaceTest, LatencyReportsAndStops) {
  open();
  workspace.start_latency();
  settle();
  EXPECT_FALSE(workspace.latency().running);
  ASSERT_TRUE(workspace.latency().report.has_value());
  source->behaviour = SyntheticSource::Behaviour::Wait;
  workspace.start_latency();
  EXPECT_TRUE(workspace.latency().running);
  workspace.stop_latency();
  EXPECT_FALSE(workspace.latency().running);
  settle();
  EXPECT_FALSE(workspace.busy());
}

TEST(TokenText, BytesThatAreNoCharacterAreShownAsBytes) {
  EXPECT_EQ(state::readable_text("\xE6"), "\\xE6");
  EXPECT_EQ(state::readable_text("a\xE6\x97"), "a\\xE6\\x97");
  EXPECT_EQ(state::readable_text("\xE6\x97\xA5"), "\xE6\x97\xA5");
  EXPECT_EQ(state::readable_text("a\n"), "a\u21B5");
  EXPECT_EQ(state::readable_text(std::string("\0\x1B", 2)), "\\x00\\x1B");
  EXPECT_EQ(state::readable_token(" the"), "\u00B7the");
  EXPECT_EQ(state::readable_token(""), "(empty)");
}

TEST(TokenText, SearchCrossesTokensAndIgnoresCase) {
  const std::vector<std::string> tokens{"One", " of", " the", " ONE", " of"};
  EXPECT_THAT(state::find_text(tokens, "one of"), ElementsAre(0, 3));
  EXPECT_THAT(state::find_text(tokens, "f t"), ElementsAre(1));
  EXPECT_TRUE(state::find_text(tokens, "").empty());
  EXPECT_TRUE(state::find_text(tokens, "zebra").empty());
}

TEST(MethodDraft, ParametersOfTheCatalogueMakeAValidSpec) {
  selection::ModelShape shape{30, 9, 3, 64};
  for (const selection::MethodInfo& info : selection::catalogue()) {
    state::MethodDraft draft("quoka:budget_tokens=77", shape);
    draft.change_method(info.id, shape);
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

TEST_F(WorkspaceTest, TheMapKnowsAfterWhichChunkAKeyDied) {
  open();
  workspace.set_method(Slot::A, "streaming_llm:budget_tokens=128");
  const auto map = answer([&] { return workspace.kv_map(Slot::A); });
  ASSERT_EQ(map.state, ResultState::Ready);
  // 4 sinks and the 124 newest keys live on: keys 4 to 131 die after chunk 1, the next after 2.
  EXPECT_EQ(map->map.death_of(0), std::nullopt);
  EXPECT_EQ(map->map.death_of(4), 1);
  EXPECT_EQ(map->map.death_of(131), 1);
  EXPECT_EQ(map->map.death_of(132), 2);
  EXPECT_EQ(map->map.death_of(999), std::nullopt);
  EXPECT_TRUE(workspace.facts(Slot::A)->evicts);
}

TEST_F(WorkspaceTest, LanesAreThoseOfTheShownMethodOrOfAqua) {
  open();
  const auto other = answer([&] { return workspace.lane_report(); });
  ASSERT_EQ(other.state, ResultState::Ready);
  EXPECT_THAT(other->method, HasSubstr("aqua:dim_ratio=0.75"));
  workspace.set_method(Slot::A, "static_slicing:dim_ratio=0.5,basis=self");
  const auto own = answer([&] { return workspace.lane_report(); });
  ASSERT_EQ(own.state, ResultState::Ready);
  EXPECT_EQ(own->method, "static_slicing:dim_ratio=0.5,basis=self");
  EXPECT_TRUE(workspace.facts(Slot::A)->prunes_lanes);
}

TEST_F(WorkspaceTest, PagesAreThoseOfTheShownMethodOrOfQuestWithItsBudget) {
  open();
  const auto method_of = [&](const std::string& shown) {
    workspace.set_method(Slot::A, shown);
    const auto report = answer([&] { return workspace.page_report(); });
    return report ? report->method : report.error;
  };
  EXPECT_THAT(method_of("snapkv:budget_tokens=96"),
              HasSubstr("quest:budget_tokens=96,budget_ratio=0,"));
  EXPECT_THAT(method_of("keydiff:budget_ratio=0.25"),
              HasSubstr("quest:budget_tokens=0,budget_ratio=0.25,"));
  EXPECT_THAT(method_of("dense"), HasSubstr("quest:budget_tokens="));
  EXPECT_THAT(method_of("quest:budget_tokens=96,page_size=8,prefill=dense"),
              HasSubstr("page_size=8,prefill=dense"));
  EXPECT_EQ(answer([&] { return workspace.page_report(); })->page_size, 8);
}

TEST_F(WorkspaceTest, TheOverviewOfLanesIsTheirCost) {
  using analysis::OverviewMetric;
  open();
  workspace.set_method(Slot::A, "quoka:budget_tokens=128");
  EXPECT_EQ(workspace.overview_metric(), OverviewMetric::MassRecall);
  workspace.set_method(Slot::A, "aqua:basis=self");
  EXPECT_EQ(workspace.overview_metric(), OverviewMetric::OutputError);
  const auto cost = answer([&] { return workspace.overview(); });
  ASSERT_EQ(cost.state, ResultState::Ready);
  EXPECT_EQ(cost->metric, OverviewMetric::OutputError);
  workspace.change("", [](state::Selection& s) { s.metric = OverviewMetric::Entropy; });
  EXPECT_EQ(workspace.overview_metric(), OverviewMetric::Entropy);
  workspace.change("", [](state::Selection& s) { s.metric = OverviewMetric::MassRecall; });
  workspace.set_method(Slot::A, "aqua_h2o:basis=self");
  EXPECT_EQ(workspace.overview_metric(), OverviewMetric::MassRecall) << "it evicts keys";
}

TEST_F(WorkspaceTest, MethodsThatTheTraceCannotServeHaveAReason) {
  open();
  const auto reasons = answer([&] { return workspace.unavailable(); });
  ASSERT_EQ(reasons.state, ResultState::Ready);
  ASSERT_EQ(reasons->count("infinipot"), 1U);
  EXPECT_THAT(reasons->at("infinipot"), HasSubstr("probe"));
  EXPECT_EQ(reasons->count("quoka"), 0U);
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
  EXPECT_EQ(state::short_label("aqua:dim_ratio=0.5"), "aqua  50 % of lanes");
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

TEST(Commands, TheQueryMatchesAsAScatteredSubsequence) {
  EXPECT_LT(shell::match_score("xyz", "Next chunk"), 0);
  EXPECT_GT(shell::match_score("next", "Next chunk"),
            shell::match_score("next", "An extract of text"));
  EXPECT_GE(shell::match_score("", "anything"), 0);
}

TEST(Settings, RoundTripAndSurviveDamage) {
  const auto folder = std::filesystem::current_path() / "config";
  std::filesystem::remove_all(folder);
  paths::set_config_dir(folder);
  shell::Settings settings;
  settings.theme = widgets::ThemeKind::Light;
  settings.user_scale = 1.5F;
  settings.last_folder = "/somewhere";
  shell::save_settings(settings);
  EXPECT_EQ(shell::load_settings().theme, widgets::ThemeKind::Light);
  EXPECT_FLOAT_EQ(shell::load_settings().user_scale, 1.5F);
  EXPECT_EQ(shell::load_settings().last_folder, "/somewhere");
  for (const char* damaged :
       {"{", "[]", "{\"scale\": \"big\", \"theme\": 3}", "{\"scale\": 1e30}"}) {
    std::ofstream(paths::config_dir() / "settings.json") << damaged;
    EXPECT_LE(shell::load_settings().user_scale, shell::kMostScale) << damaged;
  }
  for (int i = 0; i < 12; ++i) shell::add_recent_file("/t" + std::to_string(i) + ".h5");
  shell::add_recent_file("/t8.h5");
  const auto recent = shell::load_recent_files();
  EXPECT_EQ(recent.size(), 9U);
  EXPECT_EQ(recent[0], "/t8.h5");
  EXPECT_EQ(recent[1], "/t11.h5");
}

}  // namespace
}  // namespace kvloupe
