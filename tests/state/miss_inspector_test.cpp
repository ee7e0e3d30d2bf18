// The miss inspector as a view: which key it speaks of, what its table holds, and what happens when the
// selection changes while it asks.
#include "app/state/questions/why_lost/miss_inspector.h"
#include "app/state/questions/why_lost/explain.h"
#include "app/state/view_list.h"
#include "tests/base/matchers.h"
#include "tests/state/workspace_fixture.h"

#include <algorithm>

namespace kvloupe {
namespace {

using state::ExplainQuestion;
using state::ResultState;
using state::Slot;
using state::WatchedKey;

constexpr const char* kUniform = "uniform_queries:budget_tokens=96";

class MissInspector : public test::WorkspaceTest {
 protected:
  void look(const char* go_to, const char* a = kUniform,
            const char* b = "oracle:budget_tokens=96") {
    workspace.cursor.go_to(state::parse_goto(go_to));
    workspace.cursor.set_method(Slot::A, a);
    workspace.cursor.set_method(Slot::B, b);
  }
  WatchedKey watched() {
    for (int frame = 0; frame < 16; ++frame) {
      workspace.begin_frame();
      const WatchedKey key = state::watched_key(workspace);
      if (!key.loading) return key;
      test::settle(workspace);
    }
    return {};
  }
  const state::ViewInfo& view() const { return *state::find_view("miss_inspector"); }
  test::ExactTable table() {
    EXPECT_EQ(test::problem_of_view(workspace, view()), "");
    return test::exact(view().table(workspace));
  }
  static std::size_t column(const test::ExactTable& table, const std::string& name) {
    const auto found = std::find(table.columns.begin(), table.columns.end(), name);
    EXPECT_NE(found, table.columns.end()) << name;
    return static_cast<std::size_t>(found - table.columns.begin());
  }
};

TEST_F(MissInspector, SpeaksOfTheChosenKeyOrOfThatWhichWasLost) {
  open();
  look("layer=1,q_head=4,chunk=7,key=405");
  EXPECT_EQ(watched().position, 405);
  EXPECT_FALSE(watched().of_span);
  // Of a span: the lost one of most true mass by A; by B, where A lost none.
  look("layer=1,q_head=4,chunk=7,key=300-520");
  const WatchedKey by_a = watched();
  EXPECT_TRUE(by_a.of_span);
  EXPECT_THAT(by_a.note, HasSubstr("that A lost"));
  EXPECT_EQ(by_a.position,
            answer_to(state::WatchedKeyQuestion{place(), workspace.method(Slot::A)})->position);
  look("layer=1,q_head=4,chunk=7,key=300-520", "dense", kUniform);
  EXPECT_EQ(watched().position, by_a.position);
  EXPECT_THAT(watched().note, HasSubstr("that B lost"));
  look("layer=1,q_head=4,chunk=7,key=300-520", "dense", "dense");
  EXPECT_THAT(watched().note, HasSubstr("which are all kept here"));
}

TEST_F(MissInspector, ItsTableNamesTheCauseWhereItIsKnown) {
  open();
  look("layer=1,q_head=4,chunk=7,key=300-520");
  const test::ExactTable rows = table();
  const auto why =
      answer_to(ExplainQuestion{place(), workspace.method(Slot::A), watched().position});
  ASSERT_TRUE(why);
  ASSERT_TRUE(why->lost_at);
  int causes = 0, scores = 0;
  for (const auto& row : rows.rows) {
    if (!row[0].starts_with("uniform_queries")) continue;
    const bool here = row[column(rows, "row")] == "1" && row[column(rows, "chunk")] == "7";
    EXPECT_EQ(!row[column(rows, "true_rank")].empty(), here);
    scores += !row[column(rows, "score")].empty();
    if (!here) continue;
    ++causes;
    EXPECT_EQ(row[column(rows, "key")], std::to_string(watched().position));
    EXPECT_EQ(row[column(rows, "lost_at")], name_of(*why->lost_at));
    EXPECT_EQ(row[column(rows, "score")], table::exact_text(*why->score));
    EXPECT_EQ(row[column(rows, "cut")], table::exact_text(*why->cut));
    EXPECT_EQ(row[column(rows, "rank")], std::to_string(*why->rank));
    EXPECT_EQ(row[column(rows, "true_rank")], std::to_string(why->true_rank));
    EXPECT_EQ(row[column(rows, "needed_budget")], std::to_string(*why->needed_budget));
  }
  EXPECT_EQ(causes, 1);
  EXPECT_GT(scores, 1) << "the chunks before have scores too";
}

// A method that nobody knows was recorded: what it kept is shown, and nothing says why.
TEST_F(MissInspector, OfAnUnknownMethodTheFateAloneIsKnown) {
  open();
  look("layer=1,q_head=4,chunk=7,key=405");
  workspace.cursor.set_run(Slot::A, 3);
  ASSERT_FALSE(workspace.method(Slot::A).known());
  const test::ExactTable rows = table();
  ASSERT_FALSE(rows.rows.empty());
  EXPECT_EQ(rows.rows.front()[column(rows, "lost_at")], "");
  EXPECT_THAT(answer_to(ExplainQuestion{place(), workspace.method(Slot::A), 405}).note,
              HasSubstr("does not know"));
}

// The search for a budget begins on request, and ends when another key is asked about.
TEST_F(MissInspector, TheLongSearchIsMadeOnRequestAndForAsLongAsItIsAskedFor) {
  open();
  look("layer=1,q_head=4,chunk=7,key=405", "h2o:budget_tokens=32", "h2o:budget_tokens=32");
  const ExplainQuestion question{place(), workspace.method(Slot::A), 405};
  ASSERT_TRUE(answer_to(question));
  workspace.begin_frame();
  const state::ExplainNow unasked = state::with_budget(workspace, workspace.ask(question), false);
  EXPECT_TRUE(unasked.may_look());
  EXPECT_FALSE(workspace.answers.busy()) << "it takes long: nobody asked for it";
  const state::ExplainNow first = state::with_budget(workspace, workspace.ask(question), true);
  EXPECT_TRUE(first.looking_for_budget);
  EXPECT_FALSE(first.result->needed_budget);
  test::settle(workspace);
  workspace.begin_frame();
  const state::ExplainNow found = state::with_budget(workspace, workspace.ask(question), true);
  EXPECT_FALSE(found.looking_for_budget);
  ASSERT_TRUE(found.result);
  EXPECT_TRUE(found.result.question.try_all_budgets);
  EXPECT_TRUE(found.result->needed_budget);
  // Nobody asks any more: the work on another key's budget ends.
  ExplainQuestion other{place(), workspace.method(Slot::A), 410};
  ASSERT_TRUE(answer_to(other));
  workspace.begin_frame();
  other.try_all_budgets = true;
  EXPECT_EQ(workspace.ask(other).state, ResultState::Loading);
  for (int frame = 0; frame < 3; ++frame) workspace.begin_frame();
  test::settle(workspace);
  EXPECT_EQ(workspace.ask(other).state, ResultState::Loading) << "it was not finished in the dark";
}

// The method changes while the cause is looked for: what is shown says what it is of.
TEST_F(MissInspector, AnOlderAnswerIsLabelledAsWhatItIs) {
  open();
  look("layer=1,q_head=4,chunk=7,key=405");
  state::LastAnswer<ExplainQuestion> shown;
  const auto ask = [&] {
    workspace.begin_frame();
    return shown.ask(workspace, ExplainQuestion{place(), workspace.method(Slot::A), 405});
  };
  ask();
  test::settle(workspace);
  ASSERT_TRUE(ask());
  {
    test::HeldLane held(workspace);
    workspace.cursor.set_method(Slot::A, "quoka:budget_tokens=64");
    const auto stale = ask();
    ASSERT_TRUE(stale);
    EXPECT_TRUE(stale.stale);
    EXPECT_TRUE(stale.question.method.text.starts_with("uniform_queries"));
    EXPECT_EQ(stale->spec.canonical(), stale.question.method.text);
  }
  test::settle(workspace);
  ask();
  test::settle(workspace);
  const auto fresh = ask();
  ASSERT_TRUE(fresh);
  EXPECT_FALSE(fresh.stale);
  EXPECT_TRUE(fresh->spec.canonical().starts_with("quoka"));
}

}  // namespace
}  // namespace kvloupe
