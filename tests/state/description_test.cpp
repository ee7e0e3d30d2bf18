// What the window shows, as the words of the command line, leads back to the same selection.
#include "app/state/description.h"

#include "app/state/questions/method_compare.h"
#include "app/state/view_list.h"
#include "core/base/error.h"
#include "tests/state/workspace_fixture.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

using state::Slot;
using ::testing::Contains;
using ::testing::HasSubstr;

// As `kvloupe export` reads them: a file, then names with one value each.
state::Description parsed(const std::vector<std::string>& arguments) {
  state::Description what;
  EXPECT_EQ(arguments.at(0), "export");
  what.trace = arguments.at(1);
  for (std::size_t i = 2; i + 1 < arguments.size(); i += 2) {
    EXPECT_EQ(arguments[i].substr(0, 2), "--");
    const std::string name = arguments[i].substr(2);
    if (name == "view")
      what.view = arguments[i + 1];
    else if (name == "goto")
      what.go_to = arguments[i + 1];
    else if (name == "method")
      what.methods.push_back(arguments[i + 1]);
    else if (name == "device")
      what.device = arguments[i + 1];
    else
      what.options[name] = arguments[i + 1];
  }
  return what;
}

class Description : public test::WorkspaceTest {
 protected:
  // A second workspace that was told so by the command line.
  std::unique_ptr<state::Workspace> shown(const std::vector<std::string>& arguments) {
    const state::Description what = parsed(arguments);
    state::check(what);
    auto other = std::make_unique<state::Workspace>();
    other->traces.open(what.trace);
    test::settle(*other);
    EXPECT_TRUE(other->has_trace());
    state::show(*other, what);
    return other;
  }
  void expect_round_trip(const state::ViewInfo& view) {
    const state::Description what = state::describe(workspace, view);
    const auto other = shown(state::export_arguments(what));
    EXPECT_EQ(state::goto_text(other->place()), state::goto_text(place())) << view.id;
    EXPECT_EQ(other->place().device, place().device) << view.id;
    if (view.shows_both) {
      EXPECT_EQ(other->selection().method, workspace.selection().method) << view.id;
    } else if (view.num_methods > 0) {
      EXPECT_EQ(other->method(), workspace.method()) << view.id;
    }
    for (const state::ViewOption& option : view.options)
      // Without another trace that is open none is drawn beside, and no command asks for it.
      EXPECT_EQ(other->option(view.id, option.name),
                option.name == "beside" ? "none" : workspace.option(view.id, option.name))
          << view.id << " --" << option.name;
    EXPECT_EQ(state::export_arguments(state::describe(*other, view)),
              state::export_arguments(what));
  }
};

TEST_F(Description, ADeviceSurvives) {
  open();
  workspace.cursor.set_device("sim");
  expect_round_trip(*state::find_view("kv_map"));
}

TEST_F(Description, OfEveryViewWithEveryOptionLeadsBack) {
  open();
  for (const char* where : {"layer=0,q_head=0,chunk=0", "layer=2,q_head=7,chunk=5,key=40-52",
                            "layer=1,q_head=4,chunk=4,query=520,window=16,key=3"}) {
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
        workspace.cursor.set_option(view.id + "." + option.name, choice);
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
TEST_F(Description, LeadsToTheSameNumbers) {
  open();
  workspace.cursor.go_to(state::parse_goto("layer=2,q_head=7,chunk=5,key=40-52"));
  workspace.cursor.set_method(Slot::A, "keydiff:budget_tokens=64");
  workspace.cursor.set_run(Slot::B, 2);
  for (const state::ViewInfo& view : state::views()) {
    if (view.table == nullptr || view.id == "latency") continue;  // no two measurements are equal
    for (const Slot slot : state::kSlots) {
      workspace.cursor.show(slot);
      const auto other = shown(state::export_arguments(state::describe(workspace, view)));
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
TEST_F(Description, OfViewsOfManyMethodsNamesWhatWasTriedOnTheSpot) {
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
      const state::Description what = state::describe(workspace, view);
      const bool names_tried = methods == std::string("all") || methods == std::string("runs");
      EXPECT_EQ(what.methods.size(), names_tried ? 6U : 2U);
      const auto other = shown(state::export_arguments(what));
      ASSERT_EQ(test::problem_of_view(workspace, view), "");
      ASSERT_EQ(test::problem_of_view(*other, view), "");
      EXPECT_GT(view.table(workspace).rows.size(), 2U);
      EXPECT_EQ(test::exact(view.table(*other)).rows, test::exact(view.table(workspace)).rows);
      EXPECT_EQ(state::describe(*other, view).methods, what.methods);
    }
  }
}

// The catalogue has the budget of A, whichever of both is looked at.
TEST_F(Description, OfTheCatalogueLeadsToTheSameBudget) {
  open();
  workspace.cursor.set_method(Slot::A, "keydiff:budget_tokens=32");
  workspace.cursor.set_method(Slot::B, "oracle:budget_tokens=64");
  workspace.cursor.show(Slot::B);
  workspace.cursor.set_option("method_compare.methods", "catalogue");
  const state::ViewInfo& view = *state::find_view("method_compare");
  const auto other = shown(state::export_arguments(state::describe(workspace, view)));
  EXPECT_EQ(state::method_compare_question(*other).catalogue, "all:budget_tokens=32");
  EXPECT_EQ(state::method_compare_question(workspace).catalogue, "all:budget_tokens=32");
}

// Methods beyond two are drawn whatever else the option adds.
TEST_F(Description, DrawsEachMethodThatIsNamed) {
  const std::vector<std::string> named{"oracle:budget_tokens=32", "random:budget_tokens=32",
                                       "keydiff:budget_tokens=32", "tova:budget_tokens=32"};
  for (const auto& [id, methods] :
       {std::pair{"budget_sweep", "ab"}, std::pair{"method_compare", "runs"}}) {
    SCOPED_TRACE(id);
    const state::Description what{whole_trace(), id, named, "layer=1", {{"methods", methods}}};
    const auto drawn = shown(state::export_arguments(what));
    const state::ViewInfo& view = *state::find_view(id);
    ASSERT_EQ(test::problem_of_view(*drawn, view), "");
    std::set<std::string> ids;
    for (const auto& row : test::exact(view.table(*drawn)).rows)
      ids.insert(row.front().substr(0, row.front().find(':')));
    for (const std::string& spec : named) EXPECT_EQ(ids.count(spec.substr(0, spec.find(':'))), 1U);
  }
}

TEST_F(Description, OfOneMethodBringsInNoOther) {
  open();
  workspace.cursor.set_run(Slot::B, 2);
  state::Description what = state::describe(workspace, *state::find_view("miss_inspector"));
  what.methods = {"keydiff:budget_tokens=64"};
  what.go_to = "layer=2,q_head=7,chunk=5,key=40-52";
  state::show(workspace, what);
  const state::ViewInfo& view = *state::find_view("miss_inspector");
  EXPECT_EQ(test::problem_of_view(workspace, view), "");
  const test::ExactTable table = test::exact(view.table(workspace));
  ASSERT_FALSE(table.rows.empty());
  for (const auto& row : table.rows) EXPECT_TRUE(row[0].starts_with("keydiff:")) << row[0];
}

TEST_F(Description, ARunOfAnUnknownMethodLeadsBackToTheRun) {
  open();
  workspace.cursor.set_run(Slot::A, 3);
  const state::ViewInfo& view = *state::find_view("kv_map");
  EXPECT_THAT(state::export_arguments(state::describe(workspace, view)),
              Contains(test::kUnknownMethod));
  expect_round_trip(view);
  // Another trace does not hold it: the words alone are wrong there.
  state::Description elsewhere = state::describe(workspace, view);
  elsewhere.trace = short_trace();
  EXPECT_THROW(state::check(elsewhere), Error);
}

TEST_F(Description, AWordOfOneChoiceAloneNamesIt) {
  open();
  const auto chosen = [&](const std::string& text) {
    const auto other = shown({"export", workspace.place().trace->path, "--view",
                              "layer_head_overview", "--metric", text});
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

TEST_F(Description, WordsThatAreWrongAreRefusedBeforeAnythingIsOpened) {
  const auto refusal = [](const state::Description& what) -> std::string {
    try {
      state::check(what);
      return {};
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return error.what();
    }
  };
  const state::Description sound{"absent.h5", "kv_map", {}, "chunk=1", {}};
  EXPECT_EQ(refusal(sound), "");
  const auto with = [&](auto change) {
    state::Description what = sound;
    change(what);
    return refusal(what);
  };
  using Words = state::Description;
  EXPECT_THAT(with([](Words& w) { w.view = "nothing"; }), HasSubstr("kv_map"));
  EXPECT_THAT(with([](Words& w) { w.go_to = "chunk=x"; }), HasSubstr("chunk=x"));
  EXPECT_THAT(with([](Words& w) { w.methods = {"nothing"}; }), HasSubstr("nothing"));
  EXPECT_THAT(with([](Words& w) {
                w.methods = {"dense", "dense", "dense"};
              }),
              HasSubstr("3 are given and the view kv_map takes two"));
  EXPECT_THAT(with([](Words& w) {
                w.view = "query_geometry";
                w.methods = {"dense", "dense"};
              }),
              HasSubstr("2 are given and the view query_geometry takes one"));
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
  EXPECT_THAT(with([](Words& w) { w.options = {{"filter", "all"}}; }), HasSubstr("takes none"));
  EXPECT_THAT(with([](Words& w) {
                w.view = "selected_vs_true";
                w.options = {{"filter", "some"}};
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
