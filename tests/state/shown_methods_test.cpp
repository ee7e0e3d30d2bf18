// A, B, both, their difference, up to six: what the views' option `show` draws, and its tables.
#include "app/state/shown_methods.h"

#include "app/state/questions/kv_difference.h"
#include "app/state/questions/selected_vs_true.h"
#include "app/state/view_list.h"
#include "core/base/error.h"
#include "tests/state/workspace_fixture.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace kvloupe {
namespace {

using analysis::KeptBy;
using analysis::KeyState;
using state::Show;
using state::Slot;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
    if (row[0] == "7" && row[4] == "true")
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
    const bool is_true = row[0] == "7" && row[4] == "true";
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

}  // namespace
}  // namespace kvloupe
