// The views of lost keys in the window: a click on a line moves the place, lists are sorted and
// filtered, and what was computed for another method or trace leads nowhere.
#include "app/state/questions/why_lost/head_merge.h"
#include "app/state/questions/why_lost/worst_misses.h"
#include "tests/gui/window_fixture.h"
#include "tests/gui/workspace_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>

namespace kvloupe {
namespace {

using state::MissPlace;
using state::place_of;
using state::Slot;

class WindowMisses : public test::WindowTest {
 protected:
  static const std::string& longer() {
    static const std::string path = test::write_gui_trace(
        "misses.h5", {.num_tokens = 1024, .runs = {"quoka:budget_tokens=64"}});
    return path;
  }
  static const std::string& shorter() {
    static const std::string path =
        test::write_gui_trace("misses_shorter.h5", {.num_tokens = 520,
                                                    .num_layers = 2,
                                                    .layers = {0, 1},
                                                    .runs = {"quoka:budget_tokens=64"},
                                                    .seed = 2});
    return path;
  }

  void open_view(const char* id) {
    open_alone(longer());
    workspace().cursor.set_method(Slot::A, "quoka:budget_tokens=48");
    explorer().run_command(std::string("view.") + id);
    settle();
    ASSERT_TRUE(explorer().panels().visible(id));
  }
  static state::Result<state::WorstMissesQuestion> misses() {
    return workspace().ask(state::worst_misses_question(workspace()));
  }
  static void click_line(const char* name, int line) {
    drive(name, [line](ImGuiTestContext* ctx) {
      const ImGuiTestItemInfo item =
          ctx->ItemInfo((in("worst_misses", "/**/###line ") + std::to_string(line)).c_str());
      // On the token: the middle of a line may be the border of a column, which is dragged.
      ctx->MouseMoveToPos({item.RectFull.Min.x + 40, item.RectFull.GetCenter().y});
      ctx->MouseClick();
      ctx->Yield(3);
    });
  }
  static bool stands_at(const MissPlace& there, const state::WorstMissesQuestion::Answer& answer) {
    return state::is_at(place(), there, answer.lost.layout);
  }
};

TEST_F(WindowMisses, AClickOnALineGoesThere) {
  open_view("worst_misses");
  const auto result = misses();
  ASSERT_EQ(result.state, state::ResultState::Ready) << result.error;
  ASSERT_GT(result->lost.keys.size(), 100U);
  for (const int line : {2, 0}) {
    click_line("line", line);
    EXPECT_TRUE(stands_at(place_of(result->lost.keys[static_cast<std::size_t>(line)]), *result));
  }
  EXPECT_EQ(misses().state, state::ResultState::Ready) << "a click computes nothing anew";
}

TEST_F(WindowMisses, LinesAreSortedAndFilteredByTheTable) {
  open_view("worst_misses");
  const auto result = misses();
  ASSERT_TRUE(result);
  const auto first = [&](const state::MissFilter& filter, std::size_t column, bool falling) {
    const auto order = state::lines_of(result->lost.keys, filter, state::lost_columns()[column],
                                       falling, place().trace->token_label);
    return place_of(result->lost.keys[static_cast<std::size_t>(order.front())]);
  };
  drive("sort", [](ImGuiTestContext* ctx) {
    ctx->ItemClick(in("worst_misses", "/**/key").c_str());
    ctx->Yield(3);
  });
  click_line("first by key", 0);
  EXPECT_TRUE(stands_at(first({}, 1, false), *result));
  drive("filter", [](ImGuiTestContext* ctx) {
    open_popup(ctx, in("worst_misses", "/##layer"));
    ctx->ItemClick("layer 3##3");
    ctx->Yield(3);
  });
  click_line("first of a layer", 0);
  state::MissFilter filter;
  filter.layer = 3;
  EXPECT_TRUE(stands_at(first(filter, 1, false), *result));
  EXPECT_EQ(place().layer, 3);
  drive("no filter", [](ImGuiTestContext* ctx) {
    open_popup(ctx, in("worst_misses", "/##layer"));
    ctx->ItemClick("all layers");
    ctx->Yield(3);
    ctx->SetRef("");
    ctx->ItemClick(in("worst_misses", "/**/mass").c_str());
    ctx->Yield(3);
  });
  click_line("first by mass", 0);
  EXPECT_TRUE(stands_at(place_of(result->lost.keys.front()), *result));
}

TEST_F(WindowMisses, RegretsLeadToTheChunkThatWantedTheKey) {
  open_view("worst_misses");
  drive("regrets", [](ImGuiTestContext* ctx) {
    open_popup(ctx, in("worst_misses", "/##list"));
    ctx->ItemClick("regrets");
    ctx->Yield(3);
  });
  const auto result = misses();
  ASSERT_TRUE(result);
  ASSERT_FALSE(result->lost.regrets.empty());
  click_line("first regret", 0);
  const replay::Regret& regret = result->lost.regrets.front();
  EXPECT_TRUE(stands_at(place_of(regret), *result));
  EXPECT_EQ(place().chunk, regret.wanted);
}

// Nobody asks for the first method any more: its work ends, and the list is the second's.
TEST_F(WindowMisses, AMethodChangedMeanwhileIsNotWaitedFor) {
  open_view("worst_misses");
  workspace().cursor.set_method(Slot::A, "quoka:budget_tokens=50");
  frames(2);
  const auto first = state::worst_misses_question(workspace());
  ASSERT_NE(workspace().ask(first).state, state::ResultState::Ready);
  workspace().cursor.set_method(Slot::A, "sliding_window:budget_tokens=50");
  frames(10);
  settle();
  const auto second = misses();
  ASSERT_EQ(second.state, state::ResultState::Ready);
  EXPECT_EQ(second->causes, std::vector<replay::Stage>{replay::Stage::Budget});
  EXPECT_NE(workspace().ask(first).state, state::ResultState::Ready) << "it ran to its end";
  settle();
  click_line("line of the second", 0);
  EXPECT_TRUE(stands_at(place_of(second->lost.keys.front()), *second));
}

// The list that stands there belongs to a method that is not chosen any more.
TEST_F(WindowMisses, AnOldListLeadsNowhere) {
  open_view("worst_misses");
  click_line("line", 0);
  const std::string before = state::goto_text(place());
  {
    test::HeldLane held(workspace());
    workspace().cursor.set_method(Slot::A, "quoka:budget_tokens=52");
    frames(3);
    const ImGuiWindow* window =
        ImGui::FindWindowByName(explorer().panels().window_of("worst_misses").c_str());
    ASSERT_NE(window, nullptr);
    ImGuiTest* test = ImGuiTestEngine_FindTestByName(engine, "window", "old line");
    if (test == nullptr)
      test = ImGuiTestEngine_RegisterTest(engine, "window", "old line", __FILE__, __LINE__);
    test->TestFunc = [](ImGuiTestContext* ctx) {
      ctx->ItemClick(in("worst_misses", "/**/###line 3").c_str());
      ctx->Yield(3);
    };
    ImGuiTestEngine_QueueTest(engine, test);
    for (int i = 0; i < 2000 && !ImGuiTestEngine_IsTestQueueEmpty(engine); ++i) frames(1);
    EXPECT_EQ(test->Output.Status, ImGuiTestStatus_Success);
    EXPECT_EQ(state::goto_text(place()), before);
  }
  settle();
}

TEST_F(WindowMisses, AShorterTraceOpenedAfterIsListedItself) {
  open_view("worst_misses");
  workspace().cursor.go_to(state::parse_goto("layer=3,chunk=7,key=900"));
  drive("filter", [](ImGuiTestContext* ctx) {
    open_popup(ctx, in("worst_misses", "/##layer"));
    ctx->ItemClick("layer 3##3");
    ctx->Yield(3);
  });
  const std::size_t messages = explorer().messages().history().size();
  workspace().traces.open(shorter());
  frames(30);  // drawn while the new trace's results are under way
  settle();
  workspace().cursor.set_method(Slot::A, "quoka:budget_tokens=48");
  settle();
  const auto result = misses();
  ASSERT_EQ(result.state, state::ResultState::Ready) << result.error;
  EXPECT_EQ(result->lost.layers, (std::vector<int>{0, 1}));
  EXPECT_EQ(explorer().messages().history().size(), messages);
  // Layer 3, that was filtered by, is not there: all lines are shown.
  click_line("line of the shorter", 0);
  EXPECT_TRUE(stands_at(place_of(result->lost.keys.front()), *result));
  EXPECT_EQ(place().trace->path, shorter());
}

TEST_F(WindowMisses, AHeadAndAKeyThatItLostAreChosenInHeadMerge) {
  open_view("head_merge");
  workspace().cursor.go_to(state::parse_goto("layer=1,q_head=0,chunk=6"));
  settle();
  const auto result = workspace().ask(state::head_merge_question(workspace()));
  ASSERT_EQ(result.state, state::ResultState::Ready) << result.error;
  ASSERT_EQ(result->choices.heads.size(), 3U);
  drive("head", [](ImGuiTestContext* ctx) {
    ctx->ItemClick(in("head_merge", "/$$2/##head").c_str());
    ctx->Yield(3);
  });
  EXPECT_EQ(place().q_head, 2);
  const auto& heads = result->choices.heads;
  const auto loser =
      std::find_if(heads.begin(), heads.end(), [](const auto& head) { return !head.lost.empty(); });
  ASSERT_NE(loser, heads.end()) << "three heads with three queries agree on every key";
  drive("lost key", [](ImGuiTestContext* ctx) {
    ctx->ItemClick(in("head_merge", "/**/###key 0").c_str());
    ctx->Yield(3);
  });
  const bool is_first_of_a_head = std::any_of(heads.begin(), heads.end(), [](const auto& head) {
    return !head.lost.empty() && head.lost.front().key == place().keys.first();
  });
  EXPECT_TRUE(is_first_of_a_head) << place().keys.first();
  EXPECT_EQ(place().q_head, 2) << "the head of the row stays";
  EXPECT_EQ(place().chunk, 6);
}

}  // namespace
}  // namespace kvloupe
