// One view alone, and the presenter, by mouse and keyboard.
#include "tests/base/matchers.h"
#include "tests/gui/window_fixture.h"
#include "tests/gui/workspace_steps.h"

#include <filesystem>

namespace kvloupe {
namespace {

using shell::Layout;

class WindowPresent : public test::WindowTest {
 protected:
  void SetUp() override {
    // Notes are remembered by file.
    static int count = 0;
    const std::string path = test::write_gui_trace("present" + std::to_string(++count) + ".h5");
    std::filesystem::remove(path + ".session.json");
    open_alone(path);
    workspace().cursor.set_perspective("kept");
    settle();
    frames(6);
  }
  void TearDown() override {
    if (explorer().presenting()) press(ImGuiKey_F11);
    WindowTest::TearDown();
  }
  static void press(ImGuiKeyChord keys) {
    drive("press", [keys](ImGuiTestContext* ctx) { ctx->KeyPress(keys); });
    frames(8);
    settle();
  }
  static shell::PanelHost& panels() { return explorer().panels(); }
  static ImVec2 size_of(const char* window) {
    const ImGuiWindow* found = ImGui::FindWindowByName(window);
    return found != nullptr ? found->Size : ImVec2();
  }
};

TEST_F(WindowPresent, ADoubleClickOnATabFillsTheWindowAndEscapeGoesBack) {
  const Layout before = panels().layout();
  workspace().cursor.set_keys(10, 12);
  drive("fill", [](ImGuiTestContext* ctx) {
    const ImGuiWindow* window = ImGui::FindWindowByName(in("kv_map").substr(2).c_str());
    IM_CHECK(window != nullptr);
    ctx->MouseMoveToPos(window->DC.DockTabItemRect.GetCenter());
    ctx->MouseDoubleClick();
    ctx->Yield(4);
  });
  frames(4);
  ASSERT_TRUE(panels().fills());
  EXPECT_TRUE(panels().visible("kv_map"));
  EXPECT_FALSE(panels().visible("selected_vs_true"));
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  EXPECT_EQ(size_of("###filled").x, viewport->WorkSize.x);
  EXPECT_EQ(size_of("###filled").y, viewport->WorkSize.y);
  // Escape closes this, and leaves the keys that are watched.
  press(ImGuiKey_Escape);
  EXPECT_FALSE(panels().fills());
  EXPECT_TRUE(place().has_keys());
  EXPECT_TRUE(panels().visible("selected_vs_true"));
  EXPECT_TRUE(panels().layout() == before);
}

TEST_F(WindowPresent, FollowsTheWorkspace) {
  press(ImGuiKey_F10);
  ASSERT_TRUE(panels().fills());
  workspace().cursor.set_perspective("much");
  frames(6);
  settle();
  EXPECT_TRUE(panels().fills());
  EXPECT_TRUE(panels().visible("method_compare"));
  panels().show("budget_sweep");
  frames(6);
  EXPECT_TRUE(panels().visible("budget_sweep"));
  EXPECT_FALSE(panels().visible("method_compare"));
  press(ImGuiKey_F10);
  EXPECT_FALSE(panels().fills());
}

TEST_F(WindowPresent, GoesThroughNotesWithoutBarsAndLarger) {
  for (const int chunk : {1, 4}) {
    workspace().cursor.set_chunk(chunk);
    note(chunk == 1 ? "here it begins" : "here it is lost");
  }
  const float size = app->gui().scale();
  press(ImGuiKey_F11);
  ASSERT_TRUE(explorer().presenting());
  EXPECT_FLOAT_EQ(app->gui().scale(), 1.35F * size);
  EXPECT_EQ(ImGui::GetMainViewport()->WorkPos.y, 0) << "no bars above";
  press(ImGuiKey_RightArrow);
  EXPECT_EQ(place().chunk, 1);
  EXPECT_EQ(explorer().notes().text_here(workspace()), "here it begins");
  press(ImGuiKey_RightArrow);
  press(ImGuiKey_RightArrow);
  EXPECT_EQ(place().chunk, 4) << "the last one stays";
  press(ImGuiKey_LeftArrow);
  EXPECT_EQ(place().chunk, 1);
  press(ImGuiKey_Escape);
  EXPECT_FALSE(explorer().presenting());
  EXPECT_FALSE(panels().fills());
  EXPECT_FLOAT_EQ(app->gui().scale(), size);
  EXPECT_GT(ImGui::GetMainViewport()->WorkPos.y, 0);
}

// A window of the desktop beside the one that the audience sees, which then shows no note.
TEST_F(WindowPresent, TheSpeakerHasAWindow) {
  for (const int chunk : {1, 4}) {
    workspace().cursor.set_chunk(chunk);
    note(chunk == 1 ? "here it begins" : "here it is lost");
  }
  ASSERT_TRUE(shell::SpeakerWindow::can_open());
  press(ImGuiKey_F12);
  EXPECT_FALSE(explorer().speaker().is_open()) << "nothing is presented";
  press(ImGuiKey_F11);
  press(ImGuiKey_RightArrow);
  frames(3);
  ASSERT_EQ(place().chunk, 1);
  const auto shows_note = [] {
    const ImGuiWindow* window = ImGui::FindWindowByName("##note");
    return window != nullptr && window->Active;
  };
  EXPECT_EQ(ImGui::GetPlatformIO().Viewports.Size, 1) << "there is one screen";
  EXPECT_TRUE(shows_note());
  press(ImGuiKey_F12);
  frames(4);
  EXPECT_EQ(ImGui::GetPlatformIO().Viewports.Size, 2);
  EXPECT_FALSE(shows_note());
  save_picture("audience.png");
  drive("next", [](ImGuiTestContext* ctx) { ctx->ItemClick("//###speaker/Next"); });
  EXPECT_EQ(place().chunk, 4);
  drive("before", [](ImGuiTestContext* ctx) { ctx->ItemClick("//###speaker/Back"); });
  EXPECT_EQ(place().chunk, 1);
  press(ImGuiKey_F11);
  frames(4);
  EXPECT_EQ(ImGui::GetPlatformIO().Viewports.Size, 1) << "it ends with the presentation";
  EXPECT_FALSE(explorer().speaker().is_open());
}

TEST_F(WindowPresent, WithoutNotesTheChunksAreTheSlides) {
  workspace().cursor.set_chunk(2);
  press(ImGuiKey_F11);
  press(ImGuiKey_RightArrow);
  EXPECT_EQ(place().chunk, 3);
  press(ImGuiKey_PageUp);
  EXPECT_EQ(place().chunk, 2);
  press(ImGuiKey_F11);
  EXPECT_FALSE(explorer().presenting());
}

// The speaker's window is drawn while the tab in front has no trace yet.
TEST_F(WindowPresent, GoesOnWhileAnotherTraceOpens) {
  press(ImGuiKey_F11);
  press(ImGuiKey_F12);
  frames(4);
  ASSERT_TRUE(explorer().speaker().is_open());
  {
    const test::HeldLane reading(workspace(), {Lane::TraceIo});
    workspace().traces.open(test::write_gui_trace("present_next.h5"));
    frames(6);
    EXPECT_FALSE(workspace().has_trace());
    EXPECT_TRUE(explorer().presenting());
  }
  settle();
  EXPECT_TRUE(workspace().has_trace());
  EXPECT_TRUE(explorer().speaker().is_open());
}

TEST_F(WindowPresent, EndsWithItsTrace) {
  press(ImGuiKey_F11);
  close_all();
  frames(6);
  EXPECT_FALSE(explorer().presenting());
}

}  // namespace
}  // namespace kvloupe
