// What once ended the window or lied in it: traces changed under results, unknown methods, focus
// beside commands, drafts of another method, files that go; then many events in random order.
#include "app/state/questions/kept/kv_map.h"
#include "app/state/questions/kept/selected_vs_true.h"
#include "tests/base/matchers.h"
#include "tests/gui/slowness.h"
#include "tests/gui/window_fixture.h"

#include <epoxy/gl.h>

#include <imgui_internal.h>

#include <chrono>
#include <filesystem>
#include <random>

namespace kvloupe {
namespace {

using state::KvMapQuestion;
using state::SelectedVsTrueQuestion;
using state::Slot;

class WindowDefects : public test::WindowTest {
 protected:
  static const std::string& longer() {
    static const std::string path = test::write_gui_trace("longer.h5");
    return path;
  }
  static const std::string& shorter() {
    static const std::string path = test::write_gui_trace(
        "shorter.h5",
        {.num_tokens = 1030,
         .decoded = 4,
         .runs = {"snapkv:budget_tokens=128", "quoka:budget_tokens=128", test::kUnknownMethod},
         .seed = 2});
    return path;
  }
  static void expect_no_new_message(std::size_t before) {
    EXPECT_EQ(explorer().messages().history().size(), before)
        << explorer().messages().history().back();
  }
};

TEST_F(WindowDefects, AShorterTraceAfterALongerOne) {
  open_alone(longer());
  explorer().panels().show("selected_vs_true");
  workspace().cursor.set_chunk(15);
  settle();
  const std::size_t messages = explorer().messages().history().size();
  workspace().traces.open(shorter());
  frames(30);  // drawn while the new trace's results are under way
  settle();
  EXPECT_EQ(place().trace->path, shorter());
  EXPECT_LT(place().chunk, static_cast<int>(place().info().chunks.size()));
  expect_no_new_message(messages);
}

TEST_F(WindowDefects, ARunOfAnUnknownMethodIsShownAndNotSelectedAnew) {
  open_alone(shorter());
  const std::size_t messages = explorer().messages().history().size();
  workspace().cursor.set_run(Slot::A, 2);
  settle();
  EXPECT_FALSE(workspace().method(Slot::A).known());
  const auto map = workspace().ask(KvMapQuestion{place(), workspace().method(Slot::A)});
  ASSERT_EQ(map.state, state::ResultState::Ready) << map.error;
  EXPECT_EQ(map->map.kept[5], 200);
  for (const state::ViewInfo& view : state::views()) {
    explorer().panels().show(view.id);
    settle();
  }
  drive("popup", [](ImGuiTestContext* ctx) {
    ctx->ItemClick("//##transport/###method A button");
    ctx->Yield(4);
    ctx->PopupCloseAll();
  });
  expect_no_new_message(messages);
  EXPECT_THROW(workspace().cursor.set_method(Slot::B, "future_method:depth=4"), Error);
}

TEST_F(WindowDefects, TheEditorEditsTheMethodClickedLast) {
  open_alone(shorter());
  workspace().cursor.set_run(Slot::A, 0);  // snapkv
  settle();
  drive("click then edit", [](ImGuiTestContext* ctx) {
    open_popup(ctx, "//##transport/###method A button");
    ctx->ItemClick("**/quoka  128##run1");
    ctx->Yield(3);
    ctx->ItemInputValue("budget_tokens", 96);
    ctx->Yield(3);
    ctx->PopupCloseAll();
  });
  EXPECT_THAT(workspace().method(Slot::A).text, HasSubstr("quoka:budget_tokens=96"));
}

TEST_F(WindowDefects, ArrowsAndSpaceMoveNoFocus) {
  open_alone(longer());
  workspace().cursor.set_chunk(3);
  static double seconds = 0;  // of playing: a busy machine draws few frames meanwhile
  drive("focus", [](ImGuiTestContext* ctx) {
    ctx->ItemClick("//##transport/##next");  // the button has ImGui's focus now
    IM_CHECK_EQ(place().chunk, 4);
    ctx->KeyPress(ImGuiKey_RightArrow);
    IM_CHECK_EQ(place().chunk, 5);
    seconds = ImGui::GetTime();
    ctx->KeyPress(ImGuiKey_Space);  // plays, and presses no button
    ctx->Yield(2);
    ctx->KeyPress(ImGuiKey_Space);
    seconds = ImGui::GetTime() - seconds;
    IM_CHECK(!explorer().playing());
  });
  // Four chunks a second; a button that each press of Space clicks, too, adds two.
  EXPECT_LE(place().chunk, 6 + static_cast<int>(4 * seconds));
}

TEST_F(WindowDefects, AFileThatIsGoneKeepsTheView) {
  const std::string path = test::write_gui_trace("gone.h5");
  open_alone(path);
  workspace().cursor.set_chunk(7);
  settle();
  std::filesystem::remove(path);
  explorer().run_command("reload");
  settle();
  ASSERT_TRUE(workspace().has_trace());
  EXPECT_EQ(place().chunk, 7);
  EXPECT_THAT(explorer().messages().history().back(), HasSubstr("gone.h5"));
}

TEST_F(WindowDefects, AClosedRunsWindowComesBack) {
  open_alone(longer());
  drive("close", [](ImGuiTestContext* ctx) {
    ctx->WindowClose(in("Runs").c_str());
    ctx->Yield(3);
  });
  EXPECT_FALSE(explorer().panels().is_open("Runs"));
  EXPECT_TRUE(explorer().run_command("view.runs"));
  frames(4);
  EXPECT_TRUE(explorer().panels().is_open("Runs"));
}

// Whatever is answered for the current place and method must be of that place and method.
void expect_answers_belong(state::Workspace& workspace) {
  const state::Place& place = workspace.place();
  if (place.empty()) return;
  for (const Slot slot : state::kSlots) {
    const state::MethodChoice& method = workspace.method(slot);
    const auto map = workspace.ask(KvMapQuestion{place, method});
    if (map.state == state::ResultState::Ready) {
      ASSERT_EQ(map->map.num_tokens, place.info().num_tokens);
      ASSERT_EQ(map->facts.choice, method);
    }
    const auto keys = workspace.ask(SelectedVsTrueQuestion{place, method});
    if (keys.state == state::ResultState::Ready) {
      ASSERT_EQ(keys->cell.chunk, place.chunk);
      ASSERT_EQ(keys->cell.layer, place.layer);
      ASSERT_EQ(keys->cell.num_candidates, place.chunk_info().begin);
      ASSERT_EQ(keys->facts.choice, method);
    }
  }
}

// As the driver would say it after a reset.
TEST_F(WindowDefects, ALostContextIsASentence) {
  const auto driver = epoxy_glGetGraphicsResetStatusARB;
  epoxy_glGetGraphicsResetStatusARB = [] { return GLenum{GL_UNKNOWN_CONTEXT_RESET_ARB}; };
  try {
    app->frame();
    ADD_FAILURE() << "it went on";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the graphics driver was reset"));
    EXPECT_EQ(error.exit_code(), 1);
  }
  epoxy_glGetGraphicsResetStatusARB = driver;
  frames(1);
}

// 10,000 events: input of all kinds, traces, methods and places changed in between, several a frame.
TEST_F(WindowDefects, SurvivesManyEventsInAnyOrder) {
  open_alone(longer());
  open(shorter());
  const std::size_t messages = explorer().messages().history().size();
  std::mt19937 random(20260301);
  const auto upto = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  constexpr double kFreezeSeconds = 5.0 * test::kSlowness;
  constexpr int kEvents = 10'000, kEventsPerFrame = 8;
  const ImGuiKey keys[] = {ImGuiKey_LeftArrow, ImGuiKey_RightArrow, ImGuiKey_UpArrow,
                           ImGuiKey_DownArrow, ImGuiKey_Home,       ImGuiKey_End,
                           ImGuiKey_X,         ImGuiKey_Escape,     ImGuiKey_PageUp,
                           ImGuiKey_PageDown,  ImGuiKey_Tab,        ImGuiKey_Space};
  const char* specs[] = {"quoka:budget_tokens=64", "h2o:budget_tokens=64", "dense",
                         "xattention:lowering=union,block_size=32", "quest:budget_tokens=96"};
  const auto frame = [&] {
    const auto begin = std::chrono::steady_clock::now();
    frames(1);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    ASSERT_LT(seconds, kFreezeSeconds) << "frozen";
    expect_answers_belong(workspace());
  };
  for (int i = 0; i < kEvents; ++i) {
    ImGuiIO& io = ImGui::GetIO();
    switch (upto(12)) {
      case 0:
      case 1:
      case 2:
        io.AddMousePosEvent(static_cast<float>(upto(1560)), static_cast<float>(90 + upto(740)));
        break;
      case 3:
        io.AddMouseButtonEvent(0, true);
        io.AddMouseButtonEvent(0, false);
        break;
      case 4: io.AddMouseWheelEvent(0, static_cast<float>(upto(5) - 2)); break;
      case 5: workspace().traces.open(upto(2) == 0 ? longer() : shorter()); break;
      case 6:
        if (upto(4) == 0) workspace().cursor.set_method(state::kSlots[upto(2)], specs[upto(5)]);
        break;
      case 7: workspace().cursor.set_run(state::kSlots[upto(2)], upto(3)); break;
      case 8:
        workspace().cursor.set_layer(upto(4));
        workspace().cursor.set_chunk(upto(20));
        break;
      case 9:
        if (upto(40) == 0) explorer().run_command("reload");
        break;
      default: {
        const ImGuiKey key = keys[upto(static_cast<int>(std::size(keys)))];
        io.AddKeyEvent(key, true);
        io.AddKeyEvent(key, false);
      }
    }
    if (i % kEventsPerFrame != 0) continue;
    ASSERT_NO_FATAL_FAILURE(frame()) << "event " << i;
  }
  // Events that exclude each other in a frame wait in a queue.
  while (!ImGui::GetCurrentContext()->InputEventsQueue.empty()) ASSERT_NO_FATAL_FAILURE(frame());
  if (explorer().playing()) explorer().run_command("play");
  settle();
  EXPECT_FALSE(workspace().answers.busy());
  for (std::size_t i = messages; i < explorer().messages().history().size(); ++i)
    EXPECT_THAT(explorer().messages().history()[i], Not(HasSubstr("failed")));
}

}  // namespace
}  // namespace kvloupe
