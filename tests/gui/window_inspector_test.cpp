// The miss inspector in the window: a key is clicked, the cause is said, and what would have kept the key
// becomes method B; also while it still asks.
#include "app/state/questions/kept/selected_vs_true.h"
#include "app/state/questions/why_lost/explain.h"
#include "app/state/questions/why_lost/explain_words.h"
#include "app/state/questions/why_lost/miss_inspector.h"
#include "core/base/units.h"
#include "tests/base/matchers.h"
#include "tests/gui/window_fixture.h"
#include "tests/gui/workspace_steps.h"

#include <fmt/format.h>

namespace kvloupe {
namespace {

using state::ExplainQuestion;
using state::Slot;
using test::WindowTest;

constexpr const char* kUniform = "uniform_queries:budget_tokens=256";

const std::string& trace() {
  static const std::string path = test::write_gui_trace("inspector.h5");
  return path;
}

class WindowInspectorTest : public WindowTest {
 protected:
  static void look() {
    open_alone(trace());
    explorer().panels().show("selected_vs_true");
    explorer().panels().show("miss_inspector");
    workspace().cursor.set_method(Slot::A, kUniform);
    workspace().cursor.set_method(Slot::B, "oracle:budget_tokens=256");
    // The last queries of the last chunk ask for the needle.
    workspace().cursor.go_to(state::parse_goto("layer=1,kv_head=1,chunk=15"));
    workspace().cursor.set_option("selected_vs_true.filter", "misses");
    settle();
  }
  static state::Result<ExplainQuestion> why(Slot slot = Slot::A) {
    const state::Place& here = place();
    return workspace().ask(ExplainQuestion{here, workspace().method(slot), here.keys.first()});
  }
  static state::Result<ExplainQuestion> why_of_span() {
    return workspace().ask(ExplainQuestion{place(), workspace().method(Slot::A),
                                           state::watched_key(workspace()).position});
  }
  // The key that sampling lost with the best true rank, and that rank from 1; one of the first three
  // missed keys, which stand in the list without scrolling.
  static std::pair<std::int32_t, std::int32_t> key_lost_by_sampling() {
    const auto ranked =
        workspace().ask(state::SelectedVsTrueQuestion{place(), workspace().method(Slot::A)});
    if (!ranked) return {-1, -1};
    const std::vector<std::int32_t>& misses = *ranked->listed.by("misses");
    for (std::size_t i = 0; i < 3 && i < misses.size(); ++i) {
      const analysis::KeyRank& key = ranked->cell.by_true_rank[static_cast<std::size_t>(misses[i])];
      const ExplainQuestion question{place(), workspace().method(Slot::A), key.position};
      const auto found = workspace().answers.need(question, WorkContext{});
      if (found->lost_at == replay::Stage::QuerySampling) return {key.position, key.true_rank + 1};
    }
    return {-1, -1};
  }
  // The button of what would have kept the key by a SPEC.
  static std::string button(const replay::Explanation& why, const std::string& change) {
    for (std::size_t i = 0; i < why.counterfactuals.size(); ++i)
      if (why.counterfactuals[i].change == change) {
        EXPECT_TRUE(why.counterfactuals[i].spec) << change;
        return in("miss_inspector", fmt::format("/**/###what if {}", i));
      }
    ADD_FAILURE() << change;
    return {};
  }
};

TEST_F(WindowInspectorTest, AClickedKeyIsExplainedAndItsRemedyBecomesB) {
  look();
  ASSERT_TRUE(explorer().panels().visible("miss_inspector"));
  const auto [key, rank] = key_lost_by_sampling();
  ASSERT_GE(key, 0) << "uniform rows lose a key of those that the question asks for";
  const std::string row = in("selected_vs_true", fmt::format("/**/{}", format_count(rank)));
  drive("click a key", [&](ImGuiTestContext* ctx) { ctx->ItemClick(row.c_str()); });
  ASSERT_EQ(place().keys.first(), key);
  settle();
  const auto known = why();
  ASSERT_EQ(known.state, state::ResultState::Ready) << known.error;
  EXPECT_EQ(known->lost_at, replay::Stage::QuerySampling);
  EXPECT_THAT(state::cause_of(place(), *known),
              HasSubstr("Lost at query sampling: all 128 rows of chunk 15"));
  save_picture("inspector.png");
  const std::string all_rows = button(*known, "all rows of the chunk");
  drive("all rows", [&](ImGuiTestContext* ctx) { ctx->ItemClick(all_rows.c_str()); });
  EXPECT_THAT(selection().choice(Slot::B).text, HasSubstr("num_queries=128"));
  EXPECT_THAT(selection().choice(Slot::A).text, HasSubstr("num_queries=16"));
  settle();
  const auto remedied = why(Slot::B);
  ASSERT_EQ(remedied.state, state::ResultState::Ready);
  EXPECT_TRUE(remedied->kept);
  // One step back undoes it.
  workspace().cursor.back();
  EXPECT_THAT(selection().choice(Slot::B).text, HasSubstr("oracle"));
}

// Of several keys the budget is asked for all of them, and what keeps most is no alarm.
TEST_F(WindowInspectorTest, TheBudgetOfASpanKeepsAllOfIt) {
  look();
  workspace().cursor.set_keys(768, 784);
  settle();
  const state::SpanBudgetQuestion question{place(), workspace().method(Slot::A)};
  const auto found = workspace().ask(question);
  ASSERT_EQ(found.state, state::ResultState::Ready) << "the panel has asked it: " << found.error;
  ASSERT_TRUE(found->budget);
  EXPECT_EQ(found->num_keys, 16);
  EXPECT_THAT(
      state::sentence_of(question, *found),
      HasSubstr(fmt::format("A budget of {} keeps all 16 keys of \u201Cneedle\u201D (here 256).",
                            format_count(*found->budget))));
  // The last of the buttons.
  const std::string make_b =
      in("miss_inspector", fmt::format("/**/###what if {}", why_of_span()->counterfactuals.size()));
  drive("make it B", [&](ImGuiTestContext* ctx) { ctx->ItemClick(make_b.c_str()); });
  settle();
  EXPECT_EQ(selection().choice(Slot::B).spec->budget_tokens(), *found->budget);
  const auto fate = workspace().ask(state::MissQuestion{place(), workspace().method(Slot::B)});
  ASSERT_EQ(fate.state, state::ResultState::Ready);
  EXPECT_EQ(fate->chunks[15].kept, 16);
  // Where a larger budget may keep less, it is looked for on request.
  workspace().cursor.set_method(Slot::A, "snapkv:budget_tokens=256");
  settle();
  drive("look", [](ImGuiTestContext* ctx) {
    IM_CHECK(ctx->ItemExists(in("miss_inspector", "/**/###search").c_str()));
  });
}

// A method that comes while another was explained: nothing of the older answer stays under the new name,
// and the new one's button does what it says.
TEST_F(WindowInspectorTest, WhatAnotherMethodDidGoesAtOnce) {
  look();
  workspace().cursor.set_method(Slot::B, state::MethodChoice{});
  workspace().cursor.set_keys(768, 769);
  settle();
  const auto first = why();
  ASSERT_EQ(first.state, state::ResultState::Ready);
  const std::string budget =
      button(*first, fmt::format("a budget of {} tokens", *first->needed_budget));
  test::HeldLane held(workspace());
  workspace().cursor.set_method(Slot::A, "quoka:budget_tokens=100");
  frames(3);
  bool there = true, grid = true;
  drive("too early", [&](ImGuiTestContext* ctx) {
    there = ctx->ItemExists(budget.c_str());
    grid = ctx->ItemExists(in("miss_inspector", "/**/###fates").c_str());
    held.release();
  });
  EXPECT_FALSE(there);
  EXPECT_FALSE(grid);
  settle();
  drive("then", [&](ImGuiTestContext* ctx) {
    grid = ctx->ItemExists(in("miss_inspector", "/**/###fates").c_str());
  });
  EXPECT_TRUE(grid);
  const auto second = why();
  ASSERT_EQ(second.state, state::ResultState::Ready) << second.error;
  ASSERT_TRUE(second->needed_budget);
  const std::string anew =
      button(*second, fmt::format("a budget of {} tokens", *second->needed_budget));
  drive("in time", [&](ImGuiTestContext* ctx) { ctx->ItemClick(anew.c_str()); });
  EXPECT_THAT(selection().choice(Slot::B).text,
              HasSubstr(fmt::format("quoka:budget_tokens={},", *second->needed_budget)));
}

TEST_F(WindowInspectorTest, TokensGridsAndListsLeadOn) {
  look();
  workspace().cursor.set_keys(768, 784);  // the needle
  settle();
  drive("token", [](ImGuiTestContext* ctx) {
    ctx->ItemClick(in("miss_inspector", "/**/###token 773").c_str());
  });
  EXPECT_EQ(place().keys.first(), 773);
  EXPECT_EQ(place().keys.bound(), 774);
  drive("whole span", [](ImGuiTestContext* ctx) {
    ctx->ItemClick(in("miss_inspector", "/**/###whole span").c_str());
  });
  EXPECT_EQ(place().keys.first(), 768);
  EXPECT_EQ(place().keys.bound(), 784);
  workspace().cursor.set_keys(773, 774);
  settle();
  const auto known = why();
  ASSERT_EQ(known.state, state::ResultState::Ready);
  ASSERT_FALSE(known->voters.empty());
  const auto voter = known->voters.front();
  drive("voter", [](ImGuiTestContext* ctx) {
    ctx->ItemClick(in("miss_inspector", "/**/###voter 0").c_str());
  });
  EXPECT_EQ(place().query, voter.position);
  EXPECT_EQ(place().q_head, voter.q_head);
  ASSERT_FALSE(known->rivals.empty());
  const auto rival = known->rivals.front().key;
  drive("rival", [](ImGuiTestContext* ctx) {
    ctx->ItemClick(in("miss_inspector", "/**/###rival 0").c_str());
  });
  EXPECT_EQ(place().keys.first(), rival);
  // The last of four layers, the last of three rows.
  drive("grid", [](ImGuiTestContext* ctx) {
    const std::string grid = in("miss_inspector", "/**/###fates");
    ctx->MouseMove(grid.c_str());
    const ImRect cells = ctx->ItemInfo(grid.c_str()).RectFull;
    ctx->MouseMoveToPos({cells.Max.x - cells.GetWidth() / 8, cells.Max.y - cells.GetHeight() / 6});
    ctx->MouseClick(0);
  });
  EXPECT_EQ(place().layer, 3);
  EXPECT_EQ(place().kv_head(), 2);
}

// All budgets are tried on request alone, and no longer than for the key that it was asked for.
TEST_F(WindowInspectorTest, TheLongSearchIsBegunByHand) {
  look();
  workspace().cursor.set_method(Slot::A, "h2o:budget_tokens=64");
  workspace().cursor.set_keys(773, 774);
  settle();
  ExplainQuestion thorough{place(), workspace().method(Slot::A), 773, true};
  drive("search", [&](ImGuiTestContext* ctx) {
    ctx->ItemClick(in("miss_inspector", "/**/###search").c_str());
    ctx->Yield(3);
    IM_CHECK(workspace().answers.busy());
    workspace().cursor.set_keys(774, 775);
    ctx->Yield(3);
  });
  settle();
  EXPECT_NE(workspace().ask(thorough).state, state::ResultState::Ready);
}

}  // namespace
}  // namespace kvloupe
