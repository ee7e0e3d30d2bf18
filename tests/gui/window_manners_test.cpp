// The small things that a user trips over: which thing a key closes, what is found, what can be clicked.
#include "app/panels/view_frame.h"
#include "app/state/questions/how_it_ran/trace_info.h"
#include "app/state/questions/how_much/latency.h"
#include "tests/base/matchers.h"
#include "tests/gui/window_fixture.h"
#include "tests/gui/workspace_steps.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <set>

namespace kvloupe {
namespace {

using state::Slot;
using state::TraceInfoQuestion;

const std::string& trace() {
  static const std::string path = test::write_gui_trace("manners.h5");
  return path;
}

class WindowManners : public test::WindowTest {
 protected:
  // The needle, chosen by hand.
  static void look() {
    open_alone(trace());
    workspace().cursor.set_perspective("where");
    workspace().cursor.set_keys(768, 784);
    settle();
  }
  static int open_popups() { return ImGui::GetCurrentContext()->OpenPopupStack.Size; }
};

// The first test: the view was not seen before.
TEST_F(WindowManners, LatencyTimesBothMethodsWhenItIsFirstSeen) {
  look();
  workspace().cursor.set_method(Slot::A, "quoka:budget_tokens=48");
  workspace().cursor.set_method(Slot::B, "streaming_llm:budget_tokens=64");
  settle();
  const auto timed = [](Slot slot) {
    return workspace().ask(state::LatencyQuestion{place(), workspace().method(slot)});
  };
  ASSERT_FALSE(timed(Slot::A));
  ASSERT_FALSE(timed(Slot::B));
  drive("panels", [](ImGuiTestContext* ctx) {
    ctx->SetRef("##MainMenuBar");
    ctx->MenuClick("View/Panels/Latency");
  });
  frames(4);
  settle();
  ASSERT_TRUE(timed(Slot::A));
  ASSERT_TRUE(timed(Slot::B));
  EXPECT_EQ(timed(Slot::B).question.method.id(), "streaming_llm");
  // Another method waits for Run.
  workspace().cursor.set_method(Slot::A, "quoka:budget_tokens=32");
  settle();
  EXPECT_FALSE(timed(Slot::A));
  explorer().run_command("layout.reset");
  settle();
}

// The press itself ends the measurement, before the button is drawn.
TEST_F(WindowManners, StopEndsWhatIsTimedAndStartsNothing) {
  look();
  drive("panels", [](ImGuiTestContext* ctx) {
    ctx->SetRef("##MainMenuBar");
    ctx->MenuClick("View/Panels/Latency");
  });
  frames(4);
  settle();
  workspace().cursor.set_method(Slot::A, "quoka:budget_tokens=24");
  workspace().cursor.set_method(Slot::B, "streaming_llm:budget_tokens=24");
  settle();
  drive("both", [](ImGuiTestContext* ctx) {
    const test::HeldLane timing(workspace(), {Lane::Timing});  // so that it does not end before
    ctx->ItemClick(in("latency", "/$$0/Run both##latency").c_str());
    ctx->Yield(4);
    IM_CHECK(workspace().answers.measuring());
    ctx->ItemClick(in("latency", "/$$0/Stop##latency").c_str());
    ctx->Yield(6);
    IM_CHECK(!workspace().answers.measuring());
  });
  settle();
  frames(6);
  EXPECT_FALSE(workspace().answers.measuring());
  EXPECT_FALSE(workspace().ask(state::LatencyQuestion{place(), workspace().method(Slot::B)}))
      << "B was still to be timed";
  explorer().run_command("layout.reset");
  settle();
}

// Keys that write nothing, too: what they show would wait for the measurement.
TEST_F(WindowManners, AnyKeyEndsWhatIsTimed) {
  look();
  drive("panels", [](ImGuiTestContext* ctx) {
    ctx->SetRef("##MainMenuBar");
    ctx->MenuClick("View/Panels/Latency");
  });
  frames(4);
  settle();
  workspace().cursor.set_method(Slot::A, "quoka:budget_tokens=40");
  settle();
  for (const ImGuiKeyChord key :
       {ImGuiKeyChord{ImGuiMod_Ctrl | ImGuiKey_L}, ImGuiKeyChord{ImGuiKey_LeftArrow}})
    drive("key", [key](ImGuiTestContext* ctx) {
      const test::HeldLane timing(workspace(), {Lane::Timing});  // so that it does not end before
      ctx->ItemClick(in("latency", "/$$0/Run A##latency").c_str());
      ctx->Yield(4);
      IM_CHECK(workspace().answers.measuring());
      ctx->KeyPress(key);
      ctx->Yield(2);
      IM_CHECK(!workspace().answers.measuring());
    });
  explorer().run_command("layout.reset");
  settle();
}

TEST_F(WindowManners, EscapeClosesTheTopmostThingAlone) {
  look();
  drive("list", [](ImGuiTestContext* ctx) {
    ctx->ItemClick(in("layer_head_overview", "/##metric").c_str());
    ctx->Yield(3);
    IM_CHECK_EQ(open_popups(), 1);
    ctx->KeyPress(ImGuiKey_Escape);
    ctx->Yield(2);
    IM_CHECK_EQ(open_popups(), 0);
  });
  EXPECT_TRUE(place().has_keys()) << "the list was closed, and the keys with it";
  drive("list in the chooser", [](ImGuiTestContext* ctx) {
    open_popup(ctx, "//##transport/###method A button");
    ctx->ItemClick("##method");
    ctx->Yield(3);
    const int both = open_popups();
    ctx->KeyPress(ImGuiKey_Escape);  // from its text field
    ctx->Yield(2);
    IM_CHECK_EQ(open_popups(), both - 1);
    ctx->KeyPress(ImGuiKey_Escape);
    ctx->Yield(2);
    IM_CHECK_EQ(open_popups(), 0);
  });
  EXPECT_TRUE(place().has_keys());
  drive("search", [](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_F);
    ctx->Yield(3);
    IM_CHECK(ImGui::GetIO().WantTextInput);
    ctx->KeyPress(ImGuiKey_Escape);
    ctx->Yield(2);
  });
  EXPECT_TRUE(place().has_keys());
  drive("at last the keys", [](ImGuiTestContext* ctx) { ctx->KeyPress(ImGuiKey_Escape); });
  EXPECT_FALSE(place().has_keys());
}

TEST_F(WindowManners, EscapeClosesAMenuUnderAMouseThatRests) {
  look();
  drive("submenu", [](ImGuiTestContext* ctx) {
    ctx->SetRef("##MainMenuBar");
    ctx->MenuClick("View");
    ctx->SetRef("//$FOCUSED");
    ctx->MouseMove("Layouts");
    ctx->SleepNoSkip(0.4F, 0.02F);
    IM_CHECK_EQ(open_popups(), 2);
    for (const int left : {1, 0}) {
      ctx->KeyPress(ImGuiKey_Escape);
      ctx->SleepNoSkip(0.4F, 0.02F);
      IM_CHECK_EQ(open_popups(), left);
    }
  });
  EXPECT_TRUE(place().has_keys());
}

TEST_F(WindowManners, ThePaletteFindsWordsAndStaysWhereNothingMatches) {
  look();
  const auto& commands = explorer().commands();
  const auto reset = shell::matching("reset", commands);
  ASSERT_FALSE(reset.empty());
  EXPECT_EQ(commands[reset.front()].id, "layout.reset");
  EXPECT_THAT(shell::matching("tiff", commands), IsEmpty());
  drive("tiff", [](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_P);
    ctx->Yield(3);
    ctx->KeyChars("tiff");
    ctx->Yield(2);
    ctx->KeyPress(ImGuiKey_Enter);
    ctx->Yield(3);
    IM_CHECK_EQ(open_popups(), 1);
    ctx->KeyPress(ImGuiKey_Escape);
    ctx->Yield(2);
    IM_CHECK_EQ(open_popups(), 0);
  });
  EXPECT_TRUE(place().has_keys());
}

// From any workspace, and the list of shortcuts (F1) has it.
TEST_F(WindowManners, CtrlFSearchesTheText) {
  look();
  workspace().cursor.set_perspective("much");
  settle();
  EXPECT_FALSE(explorer().panels().visible("token_strip"));
  drive("find", [](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_F);
    ctx->Yield(12);
    ctx->KeyChars("special magic");
    ctx->KeyPress(ImGuiKey_Enter);
    ctx->Yield(3);
  });
  EXPECT_TRUE(explorer().panels().visible("token_strip"));
  EXPECT_EQ(place().keys.first(), 772);
  EXPECT_EQ(place().keys.bound(), 774);
  std::set<std::string> with_keys;
  for (const shell::Command& command : explorer().commands())
    if (!command.keys.empty()) with_keys.insert(command.id);
  EXPECT_EQ(with_keys.count("find"), 1U);
}

TEST_F(WindowManners, PanelsAndLooksAreMenusOfTheirOwn) {
  look();
  const float scale = app->gui().scale();
  drive("menus", [](ImGuiTestContext* ctx) {
    ctx->SetRef("##MainMenuBar");
    ctx->MenuClick("View/Panels/Latency");
    ctx->Yield(4);
    ctx->MenuClick("View/Looks/Larger");
    ctx->Yield(4);
  });
  EXPECT_TRUE(explorer().panels().visible("latency"));
  EXPECT_GT(app->gui().scale(), scale);
  explorer().run_command("scale.reset");
  explorer().run_command("layout.reset");
  settle();
}

// With more tabs than the bar has room for.
TEST_F(WindowManners, ATabThatIsAskedForComesIntoSight) {
  look();
  for (const state::ViewInfo& view : state::views()) explorer().panels().open_here(view.id);
  settle();
  for (const std::string id : {"attention_map", "trace_info", "budget_sweep", "aqua_lanes"}) {
    explorer().run_command("view." + id);
    settle();
    frames(40);  // the bar scrolls
    const ImGuiWindow* window = ImGui::FindWindowByName(explorer().panels().window_of(id).c_str());
    ASSERT_NE(window, nullptr) << id;
    ASSERT_NE(window->DockNode, nullptr) << id;
    ImGuiTabBar* bar = window->DockNode->TabBar;
    const ImGuiTabItem* tab = ImGui::TabBarFindTabByID(bar, window->TabId);
    ASSERT_NE(tab, nullptr) << id;
    const float left = tab->Offset - bar->ScrollingAnim;
    EXPECT_GE(left, -1) << id;
    EXPECT_LE(left + tab->Width, bar->BarRect.GetWidth() + 1) << id;
    EXPECT_GT(bar->WidthAllTabs, bar->BarRect.GetWidth()) << "there are too few tabs to tell";
  }
  explorer().run_command("layout.reset");
  settle();
}

// Whatever was tried before it.
TEST_F(WindowManners, TheOwnViewsOfAMethodAreTheFirstTabs) {
  open_alone(trace());
  workspace().cursor.set_perspective("works");
  const auto tabs_of = [](const std::string& method) {
    workspace().cursor.set_method(state::Slot::A, method);
    settle();
    std::vector<std::string> tabs;
    const ImGuiWindow* window =
        ImGui::FindWindowByName(explorer().panels().window_of("heavy_tail").c_str());
    if (window == nullptr || window->DockNode == nullptr) return tabs;
    for (const ImGuiTabItem& tab : window->DockNode->TabBar->Tabs) tabs.push_back(tab.Window->Name);
    return tabs;
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(tabs_of("quoka:budget_tokens=256").front(), HasSubstr("query_geometry"));
  EXPECT_THAT(tabs_of("quest:budget_tokens=256").front(), HasSubstr("quest_pages"));
  EXPECT_TRUE(explorer().panels().visible("quest_pages"));
  const std::vector<std::string> again = tabs_of("quoka:budget_tokens=256");
  EXPECT_THAT(again[0], HasSubstr("query_geometry"));
  EXPECT_THAT(again[1], HasSubstr("slot_scores"));
  EXPECT_THAT(again[2], HasSubstr("query_relevance"));
  EXPECT_TRUE(explorer().panels().visible("query_geometry"));
}

TEST_F(WindowManners, SpansChunksAndRunsOfTheTraceCanBeClicked) {
  look();
  workspace().cursor.set_keys(-1, -1);
  workspace().cursor.set_chunk(2);
  workspace().cursor.set_perspective("ran");
  settle();
  explorer().panels().show("trace_info");
  settle();
  forget_plots();
  const auto answer = workspace().ask(TraceInfoQuestion{place()});
  ASSERT_TRUE(answer);
  double needle = 0, row = 0;  // that it has in the plot, below the chunks
  for (const TraceInfoQuestion::Fact& fact : answer->facts) {
    if (!fact.span) continue;
    ++row;
    if (fact.name == "span needle") needle = row;
  }
  ASSERT_GT(needle, 0);
  const auto click = [&](double token, double in_row) {
    drive("click", [=](ImGuiTestContext* ctx) {
      ctx->MouseMoveToPos(in_plot("trace_info", token, in_row + 0.5));
      ctx->Yield(2);
      ctx->MouseClick();
      ctx->Yield(3);
    });
  };
  click(100, needle);  // the whole row counts
  EXPECT_EQ(place().keys.first(), 768);
  EXPECT_EQ(place().keys.bound(), 784);
  const trace::ChunkInfo& chunk = place().info().chunks[5];
  click(chunk.begin + chunk.length / 2, 0);
  EXPECT_EQ(place().chunk, 5);
  drive("run",
        [](ImGuiTestContext* ctx) { ctx->ItemClick(in("trace_info", "/**/runs/$$1/B").c_str()); });
  EXPECT_EQ(selection().choice(Slot::B).run, 1);
}

// Neither wide nor narrow: A is quoka.
TEST_F(WindowManners, AMethodThatStandsInIsNotCalledA) {
  look();
  panels::DrawContext context{workspace(), app->gui().palette()};
  const state::MethodChoice quest = state::choice_of_spec("quest:budget_tokens=64", *place().trace);
  for (const widgets::Chip& chip : panels::stand_in_chips(
           context, place(), state::facts_of(place(), quest), "A is quoka; shown is quest")) {
    EXPECT_THAT(chip.text, Not(StartsWith("A:")));
    EXPECT_THAT(chip.brief, Not(StartsWith("A:")));
  }
  const auto own = panels::stand_in_chips(
      context, place(), state::facts_of(place(), workspace().method(Slot::A)), "");
  EXPECT_THAT(own.front().text, StartsWith("A: "));
}

}  // namespace
}  // namespace kvloupe
