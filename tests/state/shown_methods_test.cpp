// A, B, both, their difference, up to six: what the views' option `show` draws, and its tables.
#include "app/state/shown_methods.h"

#include "app/state/questions/how_it_works/block_tables.h"
#include "app/state/questions/kept/kv_difference.h"
#include "app/state/questions/kept/selected_vs_true.h"
#include "app/state/questions/where/layer_head_overview.h"
#include "app/state/run_names.h"
#include "app/state/view_list.h"
#include "core/base/error.h"
#include "tests/base/matchers.h"
#include "tests/state/workspace_fixture.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>

namespace kvloupe {
namespace {

using analysis::KeyState;
using state::Show;
using state::Slot;

class ShownMethods : public test::WorkspaceTest {
 protected:
  void show(const std::string& view, const std::string& how) {
    workspace.cursor.set_option(view + "." + state::kShow, how);
  }
  test::ExactTable table_of(const std::string& id) {
    const state::ViewInfo& view = *state::find_view(id);
    EXPECT_EQ(test::problem_of_view(workspace, view), "") << id;
    return test::exact(view.table(workspace));
  }
  std::vector<std::string> texts(const std::vector<state::MethodChoice>& methods) {
    std::vector<std::string> texts;
    for (const auto& method : methods) texts.push_back(method.text);
    return texts;
  }
};

TEST_F(ShownMethods, SeveralAreAAndBThenTheNamedElseTheTriedAndTheRecorded) {
  open();
  const std::string quoka = workspace.traces.ready()->recorded[0].text;
  const std::string streaming = workspace.traces.ready()->recorded[1].text;
  workspace.cursor.set_method(Slot::A, "h2o:budget_tokens=96");
  workspace.cursor.set_method(Slot::B, "tova:budget_tokens=96");
  auto methods = texts(state::several_methods(workspace));
  ASSERT_EQ(methods.size(), 6U);  // four are recorded
  EXPECT_THAT(methods[0], HasSubstr("h2o"));
  EXPECT_THAT(methods[1], HasSubstr("tova"));
  EXPECT_EQ(methods[2], quoka);
  EXPECT_EQ(methods[3], streaming);
  // What was tried since comes before the recorded runs, and pushes the last one out.
  workspace.cursor.set_method(Slot::A, "keydiff:budget_tokens=64");
  methods = texts(state::several_methods(workspace));
  ASSERT_EQ(methods.size(), state::kMostMethods);
  EXPECT_THAT(methods[2], HasSubstr("h2o"));
  EXPECT_EQ(methods[3], quoka);
  // Who names them wants to see those.
  workspace.cursor.set_more_methods(
      {state::choice_of_text("oracle:budget_tokens=64", *place().trace)});
  methods = texts(state::several_methods(workspace));
  ASSERT_EQ(methods.size(), 3U);
  EXPECT_THAT(methods[2], HasSubstr("oracle"));
  EXPECT_TRUE(state::methods_beside(workspace, "kv_map").empty());
  show("kv_map", "several");
  EXPECT_EQ(texts(state::methods_beside(workspace, "kv_map")), std::vector{methods[2]});
}

// A card says by what a method differs from a recorded run of the same name, though that is not shown.
TEST_F(ShownMethods, LabelsTellFromRunsThatAreNotShown) {
  open();
  const state::MethodChoice quoka = workspace.traces.ready()->recorded[0];
  EXPECT_EQ(state::labels_of(workspace, {quoka}).front(), state::label_of(workspace, quoka));
  const auto other =
      state::choice_of_spec(quoka.spec->with({{"num_queries", "5"}}), *workspace.place().trace);
  EXPECT_THAT(state::labels_of(workspace, {other}).front(), HasSubstr("num_queries=5"));
  EXPECT_EQ(state::labels_of(workspace, {other}).size(), 1U);
}

// Of the kinds that the trace has runs of, these stand in before a default of the view.
TEST_F(ShownMethods, ARunOfTheKindStandsIn) {
  open();
  workspace.cursor.set_method(Slot::A, "keydiff:budget_tokens=64");
  const auto question = state::block_tables_question(workspace);
  const auto& recorded = workspace.traces.ready()->recorded;
  const auto of_blocks = std::ranges::find_if(recorded, [](const state::MethodChoice& run) {
    return run.known() && run.spec->info().granularity == trace::Granularity::Block;
  });
  ASSERT_NE(of_blocks, recorded.end());
  EXPECT_EQ(question.method, *of_blocks);
  EXPECT_EQ(question.stand_in, "keydiff chooses no blocks: shown is " + of_blocks->id() +
                                   ", of which this trace has a run.");
}

TEST_F(ShownMethods, ADescribedFigureNamesWhatItDraws) {
  open();
  workspace.cursor.set_run(Slot::A, 0);
  workspace.cursor.set_run(Slot::B, 1);
  const state::ViewInfo& view = *state::find_view("kv_map");
  EXPECT_EQ(state::describe(workspace, view).methods.size(), 1U);
  for (const char* how : {"both", "difference"}) {
    show("kv_map", how);
    EXPECT_EQ(state::describe(workspace, view).methods,
              (std::vector{workspace.method(Slot::A).text, workspace.method(Slot::B).text}))
        << how;
    EXPECT_EQ(state::describe(workspace, view).options.at("kv_map.show"), how);
  }
  show("kv_map", "several");
  EXPECT_EQ(state::describe(workspace, view).methods, texts(state::several_methods(workspace)));
}

TEST_F(ShownMethods, WhatCannotBeShownIsSaid) {
  state::ViewState what;
  what.trace = whole_trace();
  what.view = "kv_map";
  what.methods = {"quoka", "oracle"};
  for (const char* how : {"one", "both", "difference", "several"}) {
    what.options["kv_map.show"] = how;
    EXPECT_NO_THROW(state::check(what)) << how;
  }
  const auto refusal = [&] {
    try {
      state::check(what);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  what.methods = {"quoka"};
  what.options["kv_map.show"] = "difference";
  EXPECT_THAT(refusal(), HasSubstr("--show difference needs two methods"));
  what.methods = {"quoka", "oracle", "h2o"};
  what.options["kv_map.show"] = "both";
  EXPECT_THAT(refusal(), HasSubstr("--show several"));
  what.options["kv_map.show"] = "several";
  EXPECT_EQ(refusal(), "");
  what.methods.resize(7, "h2o");
  EXPECT_THAT(refusal(), HasSubstr("draws 6 at most"));
}

// The keys of each class, by chunk, from the table; and from the maps of the two methods.
TEST_F(ShownMethods, TheDifferenceOfTwoKvMapsIsThatOfTheirKeys) {
  open();
  workspace.cursor.set_run(Slot::A, 0);
  workspace.cursor.set_run(Slot::B, 1);
  show("kv_map", "difference");
  std::map<std::pair<std::string, std::string>, std::int64_t> counted, expected;
  for (const auto& row : table_of("kv_map").rows)
    counted[{row[0], row[3]}] += std::stoll(row[2]) - std::stoll(row[1]);
  const auto map = [&](Slot slot) {
    return answer_to(state::KvMapQuestion{place(), workspace.method(slot)})->map;
  };
  const analysis::KvMap a = map(Slot::A), b = map(Slot::B);
  const std::set<KeyState> kept{KeyState::Kept, KeyState::Sink, KeyState::Recent, KeyState::Dense};
  for (std::size_t chunk = 0; chunk < a.chunks.size(); ++chunk)
    for (std::int32_t key = 0; key < a.chunks[chunk].begin; ++key) {
      const bool by_a = kept.contains(a.at(chunk, key)), by_b = kept.contains(b.at(chunk, key));
      const char* who = by_a ? by_b ? "both" : "A only" : by_b ? "B only" : "neither";
      ++expected[{std::to_string(chunk), who}];
    }
  EXPECT_EQ(counted, expected);
  EXPECT_GT((counted[{"7", "A only"}]), 0);
  EXPECT_GT((counted[{"7", "B only"}]), 0);
  EXPECT_GT((counted[{"7", "both"}]), 0);
  EXPECT_GT((counted[{"7", "neither"}]), 0);
  // The array has the same keys.
  const state::Array array = state::find_view("kv_map")->array(workspace);
  EXPECT_EQ(array.dtype, "|u1");
  EXPECT_THAT(array.shape, ElementsAre(8, 1000));
  EXPECT_EQ(std::count(array.bytes.begin() + 7000, array.bytes.end(), '\1'),
            (expected[{"7", "A only"}]));
}

// As many true keys as the smaller set holds, and none that weighs less than a key left out.
TEST_F(ShownMethods, TrueKeysAreTheHeaviestThatTheSmallerSetHasRoomFor) {
  open();
  workspace.cursor.set_method(Slot::A, "quoka:budget_tokens=64");
  workspace.cursor.set_method(Slot::B, "oracle:budget_tokens=96");
  show("kv_map", "difference");
  workspace.cursor.set_option("kv_map.truth", "on");
  std::set<std::int32_t> marked;
  const test::ExactTable table = table_of("kv_map");
  ASSERT_EQ(table.columns.back(), "true_key");
  for (const auto& row : table.rows)
    if (row[0] == "7" && row[4] == "1")
      for (std::int32_t key = std::stoi(row[1]); key < std::stoi(row[2]); ++key) marked.insert(key);
  EXPECT_EQ(marked.size(), 64U);
  state::Place last = place();
  last.chunk = 7;
  const auto truth = answer_to(state::SelectedVsTrueQuestion{last, workspace.method(Slot::B)});
  double least = 1e9, heaviest_left = 0;
  for (std::int32_t key = 0; key < last.chunk_info().begin; ++key) {
    const double mass = truth->cell.mass[static_cast<std::size_t>(key)];
    if (marked.contains(key))
      least = std::min(least, mass);
    else
      heaviest_left = std::max(heaviest_left, mass);
  }
  EXPECT_GE(least, heaviest_left);
  // The oracle keeps all of them.
  for (const auto& row : table.rows) {
    const bool is_true = row[0] == "7" && row[4] == "1";
    EXPECT_TRUE(!is_true || row[3] == "both" || row[3] == "B only") << row[1] << " " << row[3];
  }
}

TEST_F(ShownMethods, BothAreTheTablesOfEachBelowTheOther) {
  open();
  workspace.cursor.set_run(Slot::A, 0);
  workspace.cursor.set_run(Slot::B, 1);
  std::vector<std::vector<std::string>> alone;
  for (const Slot slot : state::kSlots) {
    workspace.cursor.show(slot);
    for (auto row : table_of("kv_map").rows) {
      row.insert(row.begin(), workspace.method(slot).text);
      alone.push_back(std::move(row));
    }
  }
  show("kv_map", "both");
  const test::ExactTable both = table_of("kv_map");
  EXPECT_EQ(both.columns.front(), "method");
  EXPECT_EQ(both.rows, alone);
  EXPECT_THAT(state::find_view("kv_map")->array(workspace).shape, ElementsAre(2, 8, 1000));
}

// A method by KV heads and one that cuts lanes: each number stands under its own name.
TEST_F(ShownMethods, TablesOfOtherHeadsAndNumbersHaveColumnsOfTheirOwn) {
  open();
  workspace.cursor.go_to(state::parse_goto("chunk=7"));
  workspace.cursor.set_run(Slot::A, 0);
  workspace.cursor.set_method(Slot::B, "aqua:basis=self");
  show("layer_head_overview", "both");
  const test::ExactTable both = table_of("layer_head_overview");
  EXPECT_THAT(both.columns,
              ElementsAre("method", "layer", "kv_head", "mass_recall", "q_head", "output_error"));
  ASSERT_EQ(both.rows.size(), 9U + 27U);
  for (std::size_t i = 0; i < both.rows.size(); ++i) {
    const bool of_a = i < 9;
    EXPECT_EQ(test::cell_of(both, i, "method"), workspace.method(of_a ? Slot::A : Slot::B).text);
    EXPECT_NE(test::cell_of(both, i, "layer"), "");
    for (const char* column : {"kv_head", "mass_recall"})
      EXPECT_EQ(test::cell_of(both, i, column).empty(), !of_a) << column << i;
    for (const char* column : {"q_head", "output_error"})
      EXPECT_EQ(test::cell_of(both, i, column).empty(), of_a) << column << i;
  }
}

state::OverviewQuestion::Answer overview(std::int64_t heads, std::vector<float> values,
                                         replay::Number number) {
  state::OverviewQuestion::Answer answer;
  answer.overview = {
      number, trace::Phase::Prefill, {3, 7}, heads == 2, {2, heads, std::move(values)}};
  answer.q_heads_per_column = heads == 2 ? 2 : 1;
  return answer;
}

// Two layers; A has two KV heads, B four query heads: each of A's stands for two of B's.
TEST(OverviewDifference, IsAOfTheFinerHeadsLessB) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const auto a = overview(2, {0.5F, 0.25F, 1.0F, kNaN}, replay::Number::MassRecall);
  const auto b =
      overview(4, {0.25F, 0.75F, 0.25F, 0.5F, 1.0F, 0.0F, 0.5F, 0.5F}, replay::Number::MassRecall);
  const auto less = state::difference_of(a, b);
  EXPECT_FALSE(less.less.overview.per_kv_head);
  EXPECT_EQ(less.less.q_heads_per_column, 1);
  EXPECT_THAT(less.less.overview.layers, ElementsAre(3, 7));
  const std::vector<float>& values = less.less.overview.values.values;
  ASSERT_EQ(values.size(), 8U);
  const std::vector<float> expected{0.25F, -0.25F, 0.0F, -0.25F, 0.0F, 1.0F};
  EXPECT_EQ(std::vector(values.begin(), values.begin() + 6), expected);
  EXPECT_TRUE(std::isnan(values[6]) && std::isnan(values[7]));
  EXPECT_EQ(less.less.num_known, 6);
  EXPECT_EQ(less.less.num_dense, 2);
  EXPECT_EQ(less.a_better, 2);
  EXPECT_EQ(less.b_better, 2);
  EXPECT_EQ(less.less.highest, 1);
  EXPECT_EQ(less.less.by_worth.front(), 1);  // B furthest ahead, the first of two as far
  EXPECT_EQ(less.less.by_worth.back(), 5);
  // The other way round each value has the other sign.
  const auto other = state::difference_of(b, a);
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_EQ(other.less.overview.values.values[i], -values[i]) << i;
  EXPECT_EQ(other.a_better, 2);
}

TEST(OverviewDifference, OfAnErrorLowerIsBetter) {
  const auto a = overview(2, {0.5F, 0.25F, 1.0F, 0.5F}, replay::Number::OutputError);
  const auto b = overview(2, {0.25F, 0.5F, 0.0F, 0.5F}, replay::Number::OutputError);
  const auto less = state::difference_of(a, b);
  EXPECT_EQ(less.a_better, 1);
  EXPECT_EQ(less.b_better, 2);
  EXPECT_THAT(less.less.by_worth, ElementsAre(2, 0, 3, 1));
  EXPECT_THROW(state::difference_of(
                   a, overview(3, std::vector<float>(6, 0.0F), replay::Number::OutputError)),
               Error);
}

TEST_F(ShownMethods, TheOverviewOfTheDifferenceHoldsBothNumbers) {
  open();
  workspace.cursor.go_to(state::parse_goto("chunk=7"));
  workspace.cursor.set_run(Slot::A, 0);
  workspace.cursor.set_run(Slot::B, 1);
  std::vector<test::ExactTable> alone;
  for (const Slot slot : state::kSlots) {
    workspace.cursor.show(slot);
    alone.push_back(table_of("layer_head_overview"));
  }
  show("layer_head_overview", "difference");
  const test::ExactTable less = table_of("layer_head_overview");
  EXPECT_THAT(less.columns,
              ElementsAre("layer", "kv_head", "mass_recall_a", "mass_recall_b", "a_less_b"));
  ASSERT_EQ(less.rows.size(), 9U);
  for (std::size_t i = 0; i < less.rows.size(); ++i) {
    EXPECT_EQ(less.rows[i][2], alone[0].rows[i][2]);
    EXPECT_EQ(less.rows[i][3], alone[1].rows[i][2]);
    EXPECT_NEAR(std::stod(less.rows[i][4]), std::stod(less.rows[i][2]) - std::stod(less.rows[i][3]),
                1e-6);
  }
  // What attention alone has is one number, whatever is shown of methods.
  workspace.cursor.set_option("layer_head_overview.metric", "entropy");
  EXPECT_EQ(state::overview_show(workspace), Show::One);
  EXPECT_EQ(table_of("layer_head_overview").columns.size(), 3U);
  // A method of lanes keeps every key: it has no recall.
  workspace.cursor.set_option("layer_head_overview.metric", "mass_recall");
  workspace.cursor.set_method(Slot::B, "aqua");
  EXPECT_THAT(test::problem_of_view(workspace, *state::find_view("layer_head_overview")),
              HasSubstr("Choose the output error"));
}

// Every candidate once, with the class that the two states make.
TEST_F(ShownMethods, TheTokenStripOfTheDifferenceNamesTheClassOfEachToken) {
  open();
  workspace.cursor.go_to(state::parse_goto("chunk=7"));
  workspace.cursor.set_run(Slot::A, 0);
  workspace.cursor.set_run(Slot::B, 1);
  show("token_strip", "difference");
  const test::ExactTable table = table_of("token_strip");
  ASSERT_EQ(table.rows.size(), static_cast<std::size_t>(place().chunk_info().begin));
  const std::set<std::string> kept{"kept", "sink", "recent", "all kept (dense)"};
  std::map<std::string, int> counted;
  for (const auto& row : table.rows) {
    const bool by_a = kept.contains(row[4]), by_b = kept.contains(row[5]);
    EXPECT_EQ(row[3], by_a ? by_b ? "both" : "A only" : by_b ? "B only" : "neither") << row[0];
    // Hits and wastes are kept, misses are not.
    EXPECT_EQ(by_a, row[6] == "hit" || row[6] == "waste") << row[0];
    EXPECT_EQ(by_b, row[7] == "hit" || row[7] == "waste") << row[0];
    ++counted[row[3]];
  }
  EXPECT_EQ(counted.size(), 4U);
  show("token_strip", "both");
  EXPECT_EQ(table_of("token_strip").rows.size(), 2000U);
}

}  // namespace
}  // namespace kvloupe
