// The state of a view leads back to the same selection and the same numbers. Through the program's own
// command line it goes in tests/cli/export_state_test.cpp.
#include "app/state/view_state.h"

#include "app/state/export_words.h"
#include "app/state/other_trace.h"
#include "app/state/questions/how_much/method_compare.h"
#include "app/state/sight.h"
#include "app/state/view_list.h"
#include "core/base/error.h"
#include "tests/base/matchers.h"
#include "tests/gui/results_steps.h"
#include "tests/state/workspace_fixture.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

using state::Slot;

class ViewState : public test::WorkspaceTest {
 protected:
  // A second workspace that shows it.
  std::unique_ptr<state::Workspace> shown(const state::ViewState& what) {
    state::check(what);
    auto other = std::make_unique<state::Workspace>();
    other->traces.open(what.trace);
    test::settle(*other);
    EXPECT_TRUE(other->has_trace() || other->results.ready());
    state::show(*other, what);
    return other;
  }
  void expect_round_trip(const state::ViewInfo& view) {
    const state::ViewState what = state::describe(workspace, view);
    const auto other = shown(what);
    if (view.shows_results) {
      EXPECT_TRUE(state::describe(*other, view) == what) << view.id;
      return;
    }
    EXPECT_EQ(state::goto_text(other->place()), state::goto_text(place())) << view.id;
    EXPECT_EQ(other->place().device, place().device) << view.id;
    if (view.shows_both) {
      EXPECT_EQ(other->selection().method, workspace.selection().method) << view.id;
    } else if (view.num_methods > 0) {
      EXPECT_EQ(other->method(), workspace.method()) << view.id;
    }
    for (const state::ViewOption& option : view.options) {
      // Without another trace that is open none is drawn beside, and no command asks for it.
      const std::string& choice = workspace.option(view.id, option.name);
      EXPECT_EQ(other->option(view.id, option.name),
                state::draws_other_trace(option.name, choice) ? option.choices.front() : choice)
          << view.id << " --" << option.name;
    }
    EXPECT_EQ(other->selection().picture, workspace.selection().picture) << view.id;
    EXPECT_TRUE(state::describe(*other, view) == what) << view.id;
  }
};

TEST_F(ViewState, ADeviceAndTheFormOfPicturesSurvive) {
  open();
  workspace.cursor.set_device("sim");
  workspace.cursor.set_picture(
      {.theme = state::ThemeKind::Dark, .width = 800, .height = 500, .scale = 2});
  expect_round_trip(*state::find_view("kv_map"));
}

TEST_F(ViewState, OfEveryViewWithEveryOptionLeadsBack) {
  open();
  test::open_results(workspace);
  for (const char* where :
       {"layer=0,q_head=0,chunk=0", "layer=2,q_head=7,chunk=5,key=40-52",
        "layer=1,q_head=4,chunk=4,query=520,queries=518-520+530,window=16,key=3"}) {
    workspace.cursor.go_to(state::parse_goto(where));
    workspace.cursor.set_method(Slot::A, "quest:budget_tokens=64,page_size=8");
    workspace.cursor.set_run(Slot::B, 2);
    for (const Slot slot : state::kSlots) {
      workspace.cursor.show(slot);
      for (const state::ViewInfo& view : state::views()) expect_round_trip(view);
    }
  }
  for (const state::ViewInfo& view : state::views())
    for (const state::ViewOption& option : view.options)
      for (const std::string& choice : option.choices) {
        workspace.choose(view.id, option.name, choice);
        EXPECT_EQ(workspace.option(view.id, option.name), choice);
        expect_round_trip(view);
      }
}

// No two measurements are equal.
std::vector<std::vector<std::string>> without_times(const state::Table& of_view) {
  test::ExactTable table = test::exact(of_view);
  const auto column = std::find(table.columns.begin(), table.columns.end(), "attend_ms");
  if (column == table.columns.end()) return table.rows;
  for (auto& row : table.rows) row.erase(row.begin() + (column - table.columns.begin()));
  return table.rows;
}

// Not the words alone: what they lead to has the numbers that stood on screen.
TEST_F(ViewState, LeadsToTheSameNumbers) {
  open();
  test::open_results(workspace);
  workspace.cursor.go_to(state::parse_goto("layer=2,q_head=7,chunk=5,key=40-52"));
  workspace.cursor.set_method(Slot::A, "keydiff:budget_tokens=64");
  workspace.cursor.set_run(Slot::B, 2);
  for (const state::ViewInfo& view : state::views()) {
    if (view.table == nullptr || view.id == "latency") continue;  // no two measurements are equal
    for (const Slot slot : state::kSlots) {
      workspace.cursor.show(slot);
      const auto other = shown(state::describe(workspace, view));
      const std::string problem = test::problem_of_view(workspace, view);
      EXPECT_EQ(test::problem_of_view(*other, view), problem) << view.id;
      if (!problem.empty()) continue;
      EXPECT_TRUE(without_times(view.table(*other)) == without_times(view.table(workspace)))
          << view.id << " of slot " << state::letter_of(slot) << " has other numbers";
      EXPECT_FALSE(view.table(workspace).rows.empty()) << view.id;
    }
  }
}

// Of variants tried on the spot no trace knows: the words must name them.
TEST_F(ViewState, OfViewsOfManyMethodsNamesWhatWasTriedOnTheSpot) {
  open();
  for (const char* spec : {"keydiff:budget_tokens=32", "tova:budget_tokens=48", "dense",
                           "random:budget_tokens=32", "oracle:budget_tokens=96"})
    workspace.cursor.set_method(Slot::A, spec);
  workspace.cursor.set_run(Slot::B, 2);
  for (const auto& [id, methods] :
       {std::pair{"budget_sweep", "ab"}, std::pair{"budget_sweep", "recorded"},
        std::pair{"budget_sweep", "all"}, std::pair{"method_compare", "runs"}}) {
    const state::ViewInfo& view = *state::find_view(id);
    workspace.cursor.set_option(std::string(id) + ".methods", methods);
    for (const Slot slot : state::kSlots) {
      SCOPED_TRACE(std::string(id) + " --methods " + methods);
      workspace.cursor.show(slot);
      const state::ViewState what = state::describe(workspace, view);
      const bool names_tried = methods == std::string("all") || methods == std::string("runs");
      EXPECT_EQ(what.methods.size(), names_tried ? 6U : 2U);
      const auto other = shown(what);
      ASSERT_EQ(test::problem_of_view(workspace, view), "");
      ASSERT_EQ(test::problem_of_view(*other, view), "");
      EXPECT_GT(view.table(workspace).rows.size(), 2U);
      EXPECT_EQ(test::exact(view.table(*other)).rows, test::exact(view.table(workspace)).rows);
      EXPECT_EQ(state::describe(*other, view).methods, what.methods);
    }
  }
}

// The catalogue has the budget of A, whichever of both is looked at.
TEST_F(ViewState, OfTheCatalogueLeadsToTheSameBudget) {
  open();
  workspace.cursor.set_method(Slot::A, "keydiff:budget_tokens=32");
  workspace.cursor.set_method(Slot::B, "oracle:budget_tokens=64");
  workspace.cursor.show(Slot::B);
  workspace.cursor.set_option("method_compare.methods", "catalogue");
  const state::ViewInfo& view = *state::find_view("method_compare");
  const auto other = shown(state::describe(workspace, view));
  EXPECT_EQ(state::method_compare_question(*other).catalogue,
            (selection::ParamValues{{"budget_tokens", "32"}}));
  EXPECT_EQ(state::method_compare_question(workspace).catalogue,
            (selection::ParamValues{{"budget_tokens", "32"}}));
}

// Methods beyond two are drawn whatever else the option adds.
TEST_F(ViewState, DrawsEachMethodThatIsNamed) {
  const std::vector<std::string> named{"oracle:budget_tokens=32", "random:budget_tokens=32",
                                       "keydiff:budget_tokens=32", "tova:budget_tokens=32"};
  for (const auto& [id, methods] :
       {std::pair{"budget_sweep", "ab"}, std::pair{"method_compare", "runs"}}) {
    SCOPED_TRACE(id);
    state::ViewState what;
    what.trace = whole_trace();
    what.view = id;
    what.methods = named;
    what.place.layer = 1;
    what.options[std::string(id) + ".methods"] = methods;
    const auto drawn = shown(what);
    const state::ViewInfo& view = *state::find_view(id);
    ASSERT_EQ(test::problem_of_view(*drawn, view), "");
    std::set<std::string> ids;
    for (const auto& row : test::exact(view.table(*drawn)).rows)
      ids.insert(row.front().substr(0, row.front().find(':')));
    for (const std::string& spec : named) EXPECT_EQ(ids.count(spec.substr(0, spec.find(':'))), 1U);
  }
}

TEST_F(ViewState, OfOneMethodBringsInNoOther) {
  open();
  workspace.cursor.set_run(Slot::B, 2);
  state::ViewState what = state::describe(workspace, *state::find_view("miss_inspector"));
  what.methods = {"keydiff:budget_tokens=64"};
  what.place = state::parse_goto("layer=2,q_head=7,chunk=5,key=40-52");
  state::show(workspace, what);
  const state::ViewInfo& view = *state::find_view("miss_inspector");
  EXPECT_EQ(test::problem_of_view(workspace, view), "");
  const test::ExactTable table = test::exact(view.table(workspace));
  ASSERT_FALSE(table.rows.empty());
  for (const auto& row : table.rows) EXPECT_TRUE(row[0].starts_with("keydiff:")) << row[0];
}

// Its methods, what was tried, options of all views: what places.json and the session hold.
TEST_F(ViewState, OfATabLeadsBackToAllOfIt) {
  open();
  workspace.cursor.go_to(
      state::parse_goto("layer=2,q_head=7,chunk=5,query=700,window=8,key=40-52"));
  workspace.cursor.set_method(Slot::A, "h2o:budget_tokens=96");
  workspace.cursor.set_run(Slot::B, 1);
  workspace.cursor.set_more_methods(
      {state::choice_of_text("tova:budget_tokens=32", *place().trace)});
  workspace.cursor.show(Slot::B);
  workspace.cursor.set_option("layer_head_overview.metric", "entropy");
  workspace.cursor.set_option("budget_sweep.methods", "all");
  workspace.cursor.set_device("sim");
  workspace.cursor.set_picture(
      {.theme = state::ThemeKind::Dark, .width = 800, .height = 500, .scale = 2});
  const state::ViewState what = state::state_of(*workspace.traces.ready());
  state::Workspace other;
  other.traces.open(what.trace, what);
  test::settle(other);
  ASSERT_TRUE(other.has_trace());
  state::Selection now = other.selection();
  now.place.trace = place().trace;  // the same file, opened again
  EXPECT_TRUE(now == workspace.selection());
  EXPECT_EQ(other.traces.ready()->tried, workspace.traces.ready()->tried);
  EXPECT_TRUE(state::state_of(*other.traces.ready()) == what);
  // By a link, too, but for what was tried elsewhere.
  state::ViewState linked = what;
  linked.trace.clear();
  linked.tried.clear();
  EXPECT_TRUE(state::parse_link(state::link_text(what)) == linked) << state::link_text(what);
}

// One step back, whatever a link changed.
TEST_F(ViewState, ALinkIsOneStepOfTheHistoryOrNone) {
  open();
  const state::Selection before = workspace.selection();
  state::show(workspace,
              state::parse_link("layer=2,chunk=3;method=dense;method=oracle;device=sim"));
  EXPECT_EQ(place().layer, 2);
  EXPECT_EQ(place().device, "sim");
  EXPECT_EQ(workspace.method(Slot::B).id(), "oracle");
  const state::Selection there = workspace.selection();
  EXPECT_TRUE(workspace.cursor.back());
  EXPECT_TRUE(workspace.selection() == before);
  EXPECT_TRUE(workspace.cursor.forward());
  // A place alone leaves the rest.
  state::show(workspace, state::parse_link("chunk=1"));
  EXPECT_EQ(place().chunk, 1);
  EXPECT_EQ(place().device, "sim");
  EXPECT_TRUE(workspace.cursor.back());
  // What is wrong with a part of it leaves all as it was.
  for (const char* wrong : {"chunk=99;method=quoka", "chunk=1;method=nothing",
                            "chunk=1;method=quoka;kv_map.nothing=fit"})
    EXPECT_THROW(state::show(workspace, state::parse_link(wrong)), Error) << wrong;
  EXPECT_TRUE(workspace.selection() == there);
}

// Where its view is large, or has most room; one without a view stays.
TEST_F(ViewState, ALinkToAViewLeadsToItsWorkspace) {
  open();
  for (const auto& [link, workspace_of_it] : {std::pair{"method=quoka;view=kv_map", "kept"},
                                              {"method=quoka;view=token_strip", "kept"},
                                              {"method=quoka;view=heavy_tail", "works"},
                                              {"method=quoka;view=latency", "much"},
                                              {"method=quoka", "much"}}) {
    state::show(workspace, state::parse_link(link));
    EXPECT_EQ(workspace.selection().perspective, workspace_of_it) << link;
  }
}

TEST(Link, KeepsSignsOfItsOwnInValues) {
  state::ViewState what;
  what.methods = {"seer_attention:gate=/a;b%3B=c.h5", "run:1"};
  what.place.chunk = 3;
  EXPECT_EQ(state::link_text(what),
            "chunk=3;method=seer_attention:gate=/a%3Bb%253B=c.h5;method=run:1");
  EXPECT_TRUE(state::parse_link(state::link_text(what)) == what);
  const state::ViewState nothing;
  EXPECT_TRUE(state::parse_link("") == nothing);
  for (const char* wrong : {"chunk", "chunk=1;chunk=2", "chunk=1;depth=3", "chunk=1;device",
                            "chunk=1;goto=chunk=2", "device=cpu;device=sim", "chunk=1;theme=blue",
                            "chunk=1;size=9", "chunk=1;scale=nan", "chunk=1;chunk-size=64"})
    EXPECT_THROW(state::parse_link(wrong), Error) << wrong;
}

TEST_F(ViewState, ARunOfAnUnknownMethodLeadsBackToTheRun) {
  open();
  workspace.cursor.set_run(Slot::A, 3);
  const state::ViewInfo& view = *state::find_view("kv_map");
  EXPECT_THAT(state::export_arguments(state::describe(workspace, view)),
              Contains(test::kUnknownMethod));
  expect_round_trip(view);
  // Another trace does not hold it: the words alone are wrong there.
  state::ViewState elsewhere = state::describe(workspace, view);
  elsewhere.trace = short_trace();
  EXPECT_THROW(state::check(elsewhere), Error);
}

// As one that is recorded in the closed loop, and in the open loop beside.
TEST_F(ViewState, RunsOfOneSpecAreToldApart) {
  test::GuiTraceOptions options = whole_options();
  options.runs = {"quoka:budget_tokens=256", "quoka:budget_tokens=256",
                  "streaming_llm:budget_tokens=256"};
  open(test::write_gui_trace("one spec.h5", options));
  workspace.cursor.set_run(Slot::A, 1);
  workspace.cursor.set_run(Slot::B, 0);
  workspace.cursor.set_more_methods({state::choice_of_text("run:2", *place().trace)});
  const std::string alone = workspace.selection().more.front().text;
  const auto methods = workspace.selection().method;
  // A tab, as the session and places keep it.
  const state::TraceTab& tab = *workspace.traces.ready();
  const state::ViewState what = state::state_of(tab);
  EXPECT_THAT(what.methods, ElementsAre("run:1", "run:0", alone));
  state::Workspace other;
  other.traces.open(what.trace, what);
  test::settle(other);
  EXPECT_EQ(other.selection().method, methods);
  EXPECT_EQ(other.selection().more, workspace.selection().more);
  // A figure, and a view that is locked.
  workspace.choose("kv_map", "show", "both");
  const auto figure = shown(state::describe(workspace, *state::find_view("kv_map")));
  EXPECT_EQ(figure->selection().method, methods);
  EXPECT_EQ(state::lock_on(tab, state::lock_words(tab, tab.selection)).method, methods);
}

TEST_F(ViewState, AWordOfOneChoiceAloneNamesIt) {
  open();
  const auto chosen = [&](const std::string& text) {
    state::ViewState what = state::describe(workspace, *state::find_view("layer_head_overview"));
    what.options["layer_head_overview.metric"] = text;
    const auto other = shown(what);
    return other->option("layer_head_overview", "metric");
  };
  EXPECT_EQ(chosen("pearson"), "relevance_pearson");
  EXPECT_EQ(chosen("overlap"), "topk_overlap");
  EXPECT_EQ(chosen("error"), "output_error");
  EXPECT_EQ(chosen("gap"), "gap");
  const state::ViewOption option{"o", {"mass_recall", "top_recall", "top"}, "m"};
  EXPECT_EQ(option.choice("recall"), nullptr);  // of two
  EXPECT_EQ(option.choice("pears"), nullptr);
  EXPECT_EQ(option.choice(""), nullptr);
  EXPECT_EQ(*option.choice("top"), "top");
  EXPECT_EQ(*option.choice("mass"), "mass_recall");
}

TEST_F(ViewState, WordsThatAreWrongAreRefusedBeforeAnythingIsOpened) {
  const auto refusal = [](state::ViewState what, auto change) -> std::string {
    try {
      change(what);
      state::check(what);
      return {};
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return error.what();
    }
  };
  state::ViewState sound;
  sound.trace = "absent.h5";
  sound.view = "kv_map";
  EXPECT_EQ(refusal(sound, [](auto&) {}), "");
  const auto with = [&](auto change) { return refusal(sound, change); };
  using Words = state::ViewState;
  EXPECT_THAT(with([](Words& w) { w.view = "nothing"; }), HasSubstr("kv_map"));
  EXPECT_THAT(with([](Words& w) { w.place = state::parse_goto("chunk=x"); }), HasSubstr("chunk=x"));
  EXPECT_THAT(with([](Words& w) { w.methods = {"nothing"}; }), HasSubstr("nothing"));
  EXPECT_THAT(with([](Words& w) {
                w.methods = {"dense", "dense", "dense"};
              }),
              HasSubstr("3 are given and the view kv_map takes two"));
  EXPECT_THAT(with([](Words& w) {
                w.view = "query_relevance";
                w.methods = {"dense", "dense"};
              }),
              HasSubstr("2 are given and the view query_relevance takes one"));
  for (const char* of_none : {"heavy_tail", "trace_info"})
    EXPECT_EQ(with([&](Words& w) {
                w.view = of_none;
                w.methods = {"dense"};
              }),
              "");
  for (const char* of_many : {"budget_sweep", "method_compare"}) {
    EXPECT_EQ(with([&](Words& w) {
                w.view = of_many;
                w.methods = {"dense", "oracle", "random", "quoka"};
              }),
              "");
    EXPECT_THAT(with([&](Words& w) {
                  w.view = of_many;
                  w.methods = {"dense", "oracle", "random", "nothing"};
                }),
                HasSubstr("nothing"));
  }
  EXPECT_THAT(with([](Words& w) {
                w.options = {{"quest_pages.filter", "all"}};
              }),
              HasSubstr("takes none"));
  EXPECT_THAT(with([](Words& w) {
                w.options = {{"kv_map.filter", "all"}};
              }),
              HasSubstr("it takes --show, --truth"));
  EXPECT_THAT(with([](Words& w) {
                w.view = "selected_vs_true";
                w.options = {{"selected_vs_true.filter", "some"}};
              }),
              HasSubstr("all, misses, wastes"));
}

TEST(Views, AreDescribedInFull) {
  std::set<std::string> ids;
  for (const state::ViewInfo& view : state::views()) {
    EXPECT_TRUE(ids.insert(view.id).second) << view.id;
    EXPECT_EQ(state::find_view(view.id), &view);
    EXPECT_FALSE(view.title.empty()) << view.id;
    EXPECT_FALSE(view.summary.empty()) << view.id;
    EXPECT_NE(view.problem, nullptr) << view.id;
    EXPECT_TRUE(view.has(state::Format::Png)) << view.id;
    for (const std::string& coordinate : view.coordinates)
      EXPECT_NO_THROW(state::parse_goto(coordinate + "=1")) << view.id;
    for (const state::ViewOption& option : view.options) {
      EXPECT_FALSE(option.choices.empty()) << view.id;
      EXPECT_FALSE(option.meaning.empty()) << view.id;
    }
  }
  EXPECT_EQ(state::find_view("nothing"), nullptr);
}

}  // namespace
}  // namespace kvloupe
