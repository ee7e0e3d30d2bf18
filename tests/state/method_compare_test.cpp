// The view method_compare: which methods it lists, their order, what it says of cells and of what
// the trace cannot serve.
#include "app/state/questions/how_much/method_compare.h"

#include "core/base/error.h"
#include "core/replay/replay.h"
#include "tests/base/matchers.h"
#include "tests/state/small_workspace.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace kvloupe::state {
namespace {

using test::ExactTable;

class MethodCompareTest : public testing::SmallTraceViews {
 protected:
  MethodCompareTest() : SmallTraceViews({.decoded = 2}) {}

  void open() {
    SmallTraceViews::open();
    go_to("layer=0");
  }
  void settle() {
    test::settle(workspace_);
    workspace_.begin_frame();
  }
  void set(const std::string& option, const std::string& value) {
    workspace_.cursor.set_option("method_compare." + option, value);
  }
  test::ExactTable table() { return table_of("method_compare"); }
};

std::vector<std::string> ids_of(const ExactTable& table) {
  std::vector<std::string> ids;
  for (const auto& row : table.rows) ids.push_back(row.front().substr(0, row.front().find(':')));
  return ids;
}

TEST_F(MethodCompareTest, WithoutATraceItSaysSo) {
  const ViewInfo& view = *find_view("method_compare");
  EXPECT_EQ(view.problem(workspace_), "Open a trace");
  EXPECT_TRUE(view.table(workspace_).rows.empty());
}

TEST_F(MethodCompareTest, ListsWhatWasTriedOnceWithTheNumbersOfOneLayer) {
  open();
  choose("oracle:budget_tokens=6");
  choose("random:budget_tokens=6", Slot::B);
  choose("sliding_window:budget_tokens=6", Slot::B);
  choose("random:budget_tokens=6", Slot::B);
  const ExactTable one = table();
  ASSERT_EQ(one.rows.size(), 3U);
  EXPECT_EQ(ids_of(one).front(), "oracle");  // none keeps more of the mass
  for (std::size_t i = 0; i + 1 < 3; ++i)
    EXPECT_GE(number_in(one, i, "mass_recall"), number_in(one, i + 1, "mass_recall"));
  EXPECT_DOUBLE_EQ(number_in(one, 0, "topk_overlap"), 1);
  // Two KV heads in the chunks after the first.
  EXPECT_EQ(cell_of(one, 0, "cells"), "6");
  EXPECT_EQ(cell_of(one, 0, "all_cells"), "8");
  // The oracle by plain loops: the six keys of largest mass.
  double recall = 0;
  for (const int begin : {16, 32, 48})
    for (int kv_head = 0; kv_head < 2; ++kv_head) {
      auto mass = trace_.mass(0, kv_head, begin, std::min(begin + 16, 53));
      mass.resize(static_cast<std::size_t>(begin));
      std::sort(mass.rbegin(), mass.rend());
      double kept = 0, all = 0;
      for (int i = 0; i < begin; ++i) (i < 6 ? kept : all) += mass[static_cast<std::size_t>(i)];
      recall += kept / (kept + all) / 6;
    }
  EXPECT_NEAR(number_in(one, 0, "mass_recall"), recall, 1e-5);
  set("layers", "all");
  EXPECT_EQ(cell_of(table(), 0, "cells"), "12");
}

TEST_F(MethodCompareTest, SortsByAnyColumnEitherWay) {
  open();
  choose("oracle:budget_tokens=6");
  choose("sliding_window:budget_tokens=9", Slot::B);
  choose("aqua:basis=self", Slot::B);
  set("sort", "effective_budget");
  EXPECT_EQ(ids_of(table()), (std::vector<std::string>{"oracle", "sliding_window", "aqua"}));
  set("order", "reversed");
  EXPECT_EQ(ids_of(table()), (std::vector<std::string>{"aqua", "sliding_window", "oracle"}));
  set("sort", "method");
  EXPECT_EQ(ids_of(table()), (std::vector<std::string>{"sliding_window", "oracle", "aqua"}));
  // Lanes rank no keys: without a recall it stays behind, either way.
  set("sort", "mass_recall");
  EXPECT_EQ(ids_of(table()).back(), "aqua");
  EXPECT_EQ(cell_of(table(), 2, "mass_recall"), "");
  set("order", "");
  EXPECT_EQ(ids_of(table()).back(), "aqua");
  std::set<std::string> choices;
  for (const ViewOption& option : find_view("method_compare")->options)
    if (option.name == "sort") choices.insert(option.choices.begin(), option.choices.end());
  for (const CompareColumn& column : compare_columns()) EXPECT_EQ(choices.count(column.name), 1U);
}

TEST_F(MethodCompareTest, MarksWhatAveragedOtherCellsThanMost) {
  open();
  choose("oracle:budget_tokens=6");
  choose("random:budget_tokens=6", Slot::B);
  choose("sliding_window:budget_tokens=40", Slot::B);  // dense in all chunks but the last
  choose("dense", Slot::B);  // averages nothing: no means that could mislead
  set("cells", "own");
  const ExactTable all = table();
  ASSERT_EQ(all.rows.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(cell_of(all, i, "note"), ids_of(all)[i] == "sliding_window"
                                           ? "averaged over 2 of 8 cells, unlike most methods"
                                           : "");
  const auto result = workspace_.ask(method_compare_question(workspace_));
  EXPECT_THAT(warning_of(result.question, *result, trace::Phase::Prefill),
              AllOf(HasSubstr("sliding_window"), Not(HasSubstr("oracle"))));
}

// The newest 40 keys are chosen in the last chunk (48 keys before it) alone: there all are compared.
TEST_F(MethodCompareTest, AveragesOverCommonCellsUnlessToldOtherwise) {
  open();
  choose("sliding_window:budget_tokens=6");
  choose("sliding_window:budget_tokens=40", Slot::B);
  choose("dense", Slot::B);  // not asked
  const ExactTable common = table();
  for (const std::size_t i : {0, 1, 2}) {
    const std::string method = cell_of(common, i, "method");
    EXPECT_EQ(cell_of(common, i, "note"), "");
    if (method == "dense") continue;
    EXPECT_EQ(cell_of(common, i, "cells"), "2");
    const double budget = method.find("budget_tokens=40") == std::string::npos ? 6 : 40;
    EXPECT_NEAR(number_in(common, i, "density"), budget / 48, 1e-9) << method;
  }
  const auto result = workspace_.ask(method_compare_question(workspace_));
  EXPECT_EQ(warning_of(result.question, *result, trace::Phase::Prefill), "");
  set("cells", "own");
  const ExactTable own = table();
  for (const std::size_t i : {0, 1, 2}) {
    if (cell_of(own, i, "requested_budget") != "6") continue;
    EXPECT_NEAR(number_in(own, i, "density"), (6.0 / 16 + 6.0 / 32 + 6.0 / 48) / 3, 1e-9);
  }
}

TEST_F(MethodCompareTest, WithoutACommonCellItSaysWhichMethodKeepsEverything) {
  open();
  choose("oracle:budget_tokens=6");
  choose("quest:page_size=4,budget_tokens=8", Slot::B);  // dense in its first two layers
  EXPECT_EQ(cell_of(table(), 0, "cells"), "0");
  const auto result = workspace_.ask(method_compare_question(workspace_));
  EXPECT_THAT(warning_of(result.question, *result, trace::Phase::Prefill),
              AllOf(HasSubstr("No cell is common"), HasSubstr("quest"), Not(HasSubstr("oracle"))));
}

TEST_F(MethodCompareTest, SaysHowMuchOfTheWatchedKeysIsKept) {
  open();
  for (const Slot slot : kSlots) choose("sliding_window:budget_tokens=10", slot);
  EXPECT_EQ(cell_of(table(), 0, "span_kept"), "");  // the trace names no needle
  workspace_.cursor.go_to(parse_goto("span=20-39"));
  // Of [20, 40) chunk 2 (32 keys) sees twelve and keeps 22 to 31; chunk 3 (48) keeps 38 and 39.
  EXPECT_NEAR(number_in(table(), 0, "span_kept"), (10.0 / 12 + 2.0 / 20) / 2, 1e-9);
  workspace_.cursor.go_to(parse_goto("key=38"));  // one key is not a span to watch
  EXPECT_EQ(cell_of(table(), 0, "span_kept"), "");
}

TEST_F(MethodCompareTest, ItsFindingSetsTheWatchedKeysAgainstRecall) {
  const auto finding = [&] {
    table();  // measures them
    const auto result = workspace_.ask(method_compare_question(workspace_));
    std::vector<std::string> names;
    for (const auto& row : result->rows) names.push_back(row.method.id() + "  6");
    return finding_of(result.question, *result, names);
  };
  open();
  choose("oracle:budget_tokens=6");
  choose("sliding_window:budget_tokens=6", Slot::B);
  EXPECT_EQ(finding(), "");  // nothing is watched
  workspace_.cursor.go_to(parse_goto("span=43-47"));
  // Chunk 3 alone sees them: the window [42, 48) holds all five.
  const ExactTable one = table();
  ASSERT_EQ(ids_of(one).front(), "oracle");
  ASSERT_LT(number_in(one, 0, "span_kept"), 1);
  EXPECT_DOUBLE_EQ(number_in(one, 1, "span_kept"), 1);
  EXPECT_EQ(finding(),
            "Of 2 methods sliding_window 6 keeps the most of keys 43 to 47 (100 %); by mass recall "
            "it is second.");
}

TEST_F(MethodCompareTest, TheCatalogueHasTheShownBudgetAndSaysWhatIsNotHere) {
  open();
  choose("oracle:budget_tokens=6");
  EXPECT_EQ(method_compare_question(workspace_).catalogue, selection::ParamValues{});
  set("methods", "catalogue");
  EXPECT_EQ(method_compare_question(workspace_).catalogue,
            (selection::ParamValues{{"budget_tokens", "6"}}));
  choose("random:budget_ratio=0.25,budget_scope=all");
  EXPECT_EQ(method_compare_question(workspace_).catalogue,
            (selection::ParamValues{{"budget_ratio", "0.25"}, {"budget_scope", "all"}}));
  choose("dense");
  EXPECT_EQ(method_compare_question(workspace_).catalogue,
            (selection::ParamValues{{"budget_tokens", "16"}}));
  workspace_.cursor.set_method(Slot::A, MethodChoice{"later:x=1", 0, std::nullopt});
  EXPECT_EQ(method_compare_question(workspace_).catalogue,
            (selection::ParamValues{{"budget_tokens", "16"}}));
}

TEST_F(MethodCompareTest, AMethodThatTheTraceCannotServeIsListedWithItsReason) {
  open();
  choose("oracle:budget_tokens=6");
  choose("infinipot:budget_tokens=6", Slot::B);  // no probe was recorded
  const ExactTable both = table();
  EXPECT_EQ(ids_of(both), (std::vector<std::string>{"oracle", "infinipot"}));
  EXPECT_THAT(cell_of(both, 1, "note"), HasSubstr("no probe queries"));
  EXPECT_EQ(cell_of(both, 1, "mass_recall"), "");
}

TEST_F(MethodCompareTest, WhereNoneCanBeServedTheReasonIsTold) {
  open();
  for (const Slot slot : kSlots)
    workspace_.cursor.set_method(
        slot, MethodChoice{"infinipot", 7, std::nullopt});  // of a run that is not there
  const ViewInfo& view = *find_view("method_compare");
  view.problem(workspace_);
  settle();
  EXPECT_THAT(view.problem(workspace_), HasSubstr("run 7 is not in this trace"));
}

// As `compare` averages a run that `select --layer 1 --save` made, and says so.
TEST(MethodCompareOfRuns, ARunOfFewerLayersIsAveragedOverThese) {
  const SmallTrace trace;
  const session::TraceSession& session = trace.session();
  const auto spec =
      selection::MethodSpec::parse("oracle:budget_tokens=6").resolved(session.shape());
  replay::save_run(session, spec, replay::replay(session, {spec, {1}, {}, {}, false, false}, {}));
  auto opened = std::make_shared<OpenTrace>();
  opened->session = std::make_shared<session::TraceSession>(session.info().path);
  MethodCompareQuestion question;
  question.place.trace = opened;
  question.all_layers = true;
  question.methods = {choice_of_run(opened->info().runs.front(), *opened),
                      choice_of_spec("random:budget_tokens=6", *opened)};
  Answers answers;
  const auto common = answers.need(question, WorkContext{});
  for (const auto& row : common->rows) {
    EXPECT_EQ(row.unavailable, "");
    EXPECT_EQ(row.in(trace::Phase::Prefill).row.cells, 6) << row.method.text;  // of layer 1
  }
  EXPECT_EQ(warning_of(question, *common, trace::Phase::Prefill),
            "Run 0 has 1 of the 2 layers: 1; all rows are of these.");
  question.cells = replay::CellChoice::Own;
  const auto own = answers.need(question, WorkContext{});
  EXPECT_EQ(own->rows[0].in(trace::Phase::Prefill).row.cells, 6);
  EXPECT_EQ(own->rows[1].in(trace::Phase::Prefill).row.cells, 12);
  EXPECT_THAT(warning_of(question, *own, trace::Phase::Prefill),
              ::testing::StartsWith("Run 0 has 1 of the 2 layers: 1. "));
  // A run that the trace lacks is no run of no layers.
  question.methods = {MethodChoice{"infinipot", 7, std::nullopt}};
  EXPECT_THROW(answers.need(question, WorkContext{}), Error);
}

TEST_F(MethodCompareTest, TheCurrentChunkChoosesThePhase) {
  open();
  choose("oracle:budget_tokens=6");
  EXPECT_EQ(cell_of(table(), 0, "phase"), "prefill");
  workspace_.cursor.go_to(parse_goto("chunk=5"));
  const ExactTable decode = table();
  EXPECT_EQ(cell_of(decode, 0, "phase"), "decode");
  EXPECT_EQ(cell_of(decode, 0, "cells"), "4");  // two steps, two KV heads
}

// Rows come as they are measured.
TEST_F(MethodCompareTest, ShowsRowsAsTheyAreMeasured) {
  open();
  choose("oracle:budget_tokens=6");
  choose("random:budget_tokens=6", Slot::B);
  MethodCompareQuestion question = method_compare_question(workspace_);
  question.all_layers = true;
  const auto pending = [](const MethodCompareQuestion::Answer& answer) {
    return std::count_if(answer.rows.begin(), answer.rows.end(),
                         [](const auto& row) { return row.pending(); });
  };
  std::set<std::ptrdiff_t> shown;
  const auto answer =
      test::work_on(workspace_, question, [&](const MethodCompareQuestion::Answer* so_far) {
        ASSERT_NE(so_far, nullptr);
        shown.insert(pending(*so_far));
      });
  EXPECT_EQ(shown, (std::set<std::ptrdiff_t>{1, 2}));
  EXPECT_EQ(pending(answer), 0);
}

TEST_F(MethodCompareTest, KeysNameLayersCellsKeysMethodsAndCatalogue) {
  open();
  choose("oracle:budget_tokens=6");
  std::set<std::string> keys;
  MethodCompareQuestion question = method_compare_question(workspace_);
  const auto add = [&] { keys.insert(key_of(question)); };
  add();
  question.place.layer = 1;
  add();
  question.all_layers = true;
  add();
  question.cells = replay::CellChoice::Own;
  add();
  question.watched = trace::TokenSpan{"needle", 3, 9};
  add();
  question.methods.clear();
  question.catalogue = {{"budget_tokens", "6"}};
  add();
  question.catalogue = {{"budget_tokens", "7"}};
  add();
  EXPECT_EQ(keys.size(), 7U);
}

}  // namespace
}  // namespace kvloupe::state
