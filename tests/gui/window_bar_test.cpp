// The bar on top: two lines of one height, in which the span and the chunks that numbers are over are
// chosen; what has no room is in its menu.
#include "app/state/number_chunks.h"
#include "app/state/questions/how_much/method_compare.h"
#include "app/state/questions/where/layer_head_overview.h"
#include "app/state/questions/why_lost/span_loss.h"
#include "core/trace/write/slice.h"
#include "tests/base/matchers.h"
#include "tests/gui/window_fixture.h"

#include <GLFW/glfw3.h>
#include <imgui_internal.h>

#include <filesystem>

namespace kvloupe {
namespace {

using state::Slot;
using test::WindowTest;
using Kind = state::NumberScope::Kind;

const std::string& trace() {
  static const std::string path = test::write_gui_trace("bar.h5");
  return path;
}

class WindowBarTest : public WindowTest {
 protected:
  static void resize(int width, int height) {
    glfwSetWindowSize(glfwGetCurrentContext(), width, height);
    frames(12);
  }
  static const ImGuiWindow* bar() { return ImGui::FindWindowByName("##transport"); }
  // Opens a list of the bar and clicks an entry of it.
  static void choose(const char* list, const char* entry) {
    drive("choose", [list, entry](ImGuiTestContext* ctx) {
      open_popup(ctx, list);
      ctx->ItemClick(entry);
      ctx->Yield(3);
    });
  }
};

TEST_F(WindowBarTest, NumbersOpenOnTheQuestionAndReachTheViews) {
  open_alone(trace());
  EXPECT_EQ(selection().numbers.kind, Kind::Question);
  const auto chunks = [] { return state::overview_question(workspace()).chunks.key(); };
  const std::string question = chunks();
  EXPECT_EQ(question, state::method_compare_question(workspace()).chunks.key());
  EXPECT_NE(question, "all");
  choose("//##transport/##numbers", "all chunks");
  EXPECT_EQ(selection().numbers.kind, Kind::All);
  EXPECT_EQ(chunks(), "all");
  EXPECT_EQ(state::method_compare_question(workspace()).chunks.key(), "all");
  drive("undo", [](ImGuiTestContext* ctx) { ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_LeftBracket); });
  EXPECT_EQ(selection().numbers.kind, Kind::Question);
  // What was chosen stays when the file is read anew.
  choose("//##transport/##numbers", "each view's own");
  const state::TracePtr before = place().trace;
  workspace().traces.reload_active();
  settle();
  EXPECT_NE(place().trace, before);
  EXPECT_EQ(selection().numbers.kind, Kind::Own);
}

TEST_F(WindowBarTest, ATraceThatGrowsCountsFromItsQuestionOnOnceItIsThere) {
  const std::string path = "growing.h5";
  trace::slice_trace(trace(), {{}, 0, {}, {}}, path, true);
  open_alone(path);
  EXPECT_EQ(selection().numbers.kind, Kind::Own);
  trace::slice_trace(trace(), {}, "grown.h5", true);
  std::filesystem::rename("grown.h5", path);
  EXPECT_TRUE(workspace().traces.grown(path, path));
  settle();
  EXPECT_EQ(selection().numbers.kind, Kind::Question);
}

TEST_F(WindowBarTest, TheSpanIsPickedByNameByTextOrNotAtAll) {
  open_alone(trace());
  const trace::TokenSpan needle = place().info().spans.front();
  const auto watched = [] { return state::watched_keys(place()); };
  ASSERT_TRUE(watched());
  EXPECT_EQ(watched()->name, "needle");
  choose("//##transport/##span", "**/question");
  EXPECT_EQ(watched()->name, "question");
  choose("//##transport/##span", "none");
  EXPECT_FALSE(watched());
  // It survives as words, as of a link and of the session.
  state::Place copy = place();
  copy.watches_nothing = false;
  state::apply_goto(copy, state::target_of(place()));
  EXPECT_TRUE(copy.watches_nothing);
  choose("//##transport/##span", "**/needle");
  ASSERT_TRUE(watched());
  EXPECT_TRUE(watched()->keys.is(needle.begin, needle.end));
  // A text: all of the match.
  const std::vector<std::string>& tokens = place().trace->session->token_texts();
  const std::string text = tokens[700] + tokens[701] + tokens[702];
  drive("find", [&](ImGuiTestContext* ctx) {
    open_popup(ctx, "//##transport/##span");
    ctx->ItemInput("##find span");
    ctx->KeyCharsReplaceEnter(text.c_str());
    ctx->Yield(3);
    ctx->PopupCloseAll();
  });
  ASSERT_TRUE(place().has_keys());
  std::string found;
  for (std::int32_t t = place().keys.first(); t < place().keys.bound(); ++t)
    found += tokens[static_cast<std::size_t>(t)];
  EXPECT_THAT(found, HasSubstr(text));
}

// Nothing of it leaves the screen, and it never changes its height.
TEST_F(WindowBarTest, FitsEveryWindow) {
  open_alone(trace());
  workspace().cursor.set_method(Slot::A, "quoka:budget_tokens=256,num_queries=64");
  workspace().cursor.set_method(Slot::B, "quoka:budget_tokens=256,num_queries=32");
  settle();
  resize(1600, 900);
  const float height = bar()->Size.y;
  EXPECT_LT(height, 4.5F * ImGui::GetFrameHeight());
  for (const auto& [width, tall] : {std::pair{1600, 900}, {1280, 800}, {1000, 700}, {700, 500}}) {
    SCOPED_TRACE(std::to_string(width));
    resize(width, tall);
    EXPECT_EQ(bar()->Size.y, height);
    const ImRect inner = bar()->InnerRect;
    EXPECT_LE(bar()->ContentSize.x, inner.GetWidth() + 1);
    EXPECT_LE(bar()->ContentSize.y, inner.GetHeight() + 1);
    drive("all there", [](ImGuiTestContext* ctx) {
      const ImRect inside = bar()->InnerRect;
      for (const char* item : {"##chunk", "###more", "###method A button", "###method B button",
                               "A##show", "B##show", "##device"}) {
        const ImGuiTestItemInfo info =
            ctx->ItemInfo((std::string("//##transport/") + item).c_str());
        IM_CHECK(info.ID != 0);
        IM_CHECK(inside.Contains(info.RectFull));
      }
    });
  }
  // What has no room is in the menu.
  drive("menu", [](ImGuiTestContext* ctx) {
    open_popup(ctx, "//##transport/###more");
    IM_CHECK(ctx->ItemExists("##numbers"));
    IM_CHECK(ctx->ItemExists("##span"));
    ctx->PopupCloseAll();
  });
  resize(1600, 900);
}

TEST_F(WindowBarTest, ThereIsNoneWithoutATrace) {
  open_alone(trace());
  EXPECT_TRUE(bar()->Active);
  close_all();
  EXPECT_FALSE(bar()->Active);
}

// Why was it lost, of all of the span: told in the inspector, for both methods.
TEST_F(WindowBarTest, TheInspectorSpeaksOfTheWholeSpan) {
  open_alone(trace());
  workspace().cursor.set_method(Slot::A, "keydiff:budget_tokens=64");
  workspace().cursor.set_method(Slot::B, "oracle:budget_tokens=256");
  explorer().panels().show("miss_inspector");
  settle();
  const auto question = state::span_loss_question(workspace(), workspace().method(Slot::A));
  ASSERT_TRUE(question.span);
  const state::SpanLossNow now = state::span_loss_now(workspace(), question, false);
  ASSERT_NE(now.loss, nullptr);
  EXPECT_TRUE(now.loss->has_causes);
  EXPECT_TRUE(now.may_look) << "it evicts: its budgets are tried on request";
  ASSERT_GT(now.loss->sums().lost(), 0);
  EXPECT_THAT(now.loss->sums().causes(), ElementsAre(replay::Stage::Evicted));
  const auto other = state::span_loss_question(workspace(), workspace().method(Slot::B));
  EXPECT_TRUE(state::span_loss_now(workspace(), other, false).loss->has_budgets);
  drive("look for it",
        [](ImGuiTestContext* ctx) { ctx->ItemClick(in("miss_inspector", "/**/###look").c_str()); });
  settle();
  const state::SpanLossNow found = state::span_loss_now(workspace(), question, true);
  EXPECT_TRUE(found.loss->has_budgets);
  ASSERT_TRUE(found.loss->sums().enough);
  EXPECT_GT(*found.loss->sums().enough, 64);
}

}  // namespace
}  // namespace kvloupe
