// Views opened twice, locked, torn off and closed, by mouse and keyboard; and what closes or asks.
#include "app/shell/frame/dock_tree.h"
#include "app/state/sight.h"
#include "core/base/paths.h"
#include "tests/base/matchers.h"
#include "tests/gui/window_fixture.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

namespace kvloupe {
namespace {

using state::Slot;

constexpr const char* kView = "kv_map";
constexpr const char* kCopy = "kv_map#2";

const std::string& trace(int which) {
  static const std::string paths[] = {
      test::write_gui_trace("views_one.h5"),
      test::write_gui_trace("views_two.h5", {.num_tokens = 1024, .seed = 2})};
  return paths[which];
}

class WindowViews : public test::WindowTest {
 protected:
  void SetUp() override {
    open_alone(trace(0));
    workspace().cursor.change("", [](state::Selection& s) {
      s.options.clear();
      s.perspective = "kept";
      s.place.layer = 1;
      s.place.chunk = 7;
      s.shown = Slot::A;
    });
    explorer().run_command("layout.reset");
    settle();
  }
  static shell::PanelHost& panels() { return explorer().panels(); }
  static ImGuiWindow* window(const std::string& view) {
    return ImGui::FindWindowByName(panels().window_of(view).c_str());
  }
  static int open_popups() { return ImGui::GetCurrentContext()->OpenPopupStack.Size; }

  // An entry of the menu of the view's tab, or of the title of one that is torn off.
  static void menu(const std::string& view, const std::string& entry) {
    drive("menu", [&](ImGuiTestContext* ctx) {
      const ImGuiWindow* shown = window(view);
      IM_CHECK(shown != nullptr);
      const ImRect tab = shown->DockIsActive ? shown->DC.DockTabItemRect : shown->TitleBarRect();
      ctx->MouseMoveToPos({(tab.Min.x + tab.Max.x) / 2 - 4, tab.GetCenter().y});
      ctx->MouseClick(1);
      ctx->Yield(3);
      ctx->ItemClick(("//$FOCUSED/" + entry).c_str());
      ctx->Yield(3);
    });
  }
  // The command that the menu copies; the clipboard is the test engine's while a script runs.
  static std::string copied(const std::string& view) {
    std::string text;
    drive("copy", [&](ImGuiTestContext* ctx) {
      ctx->MouseMoveToPos(window(view)->DC.DockTabItemRect.GetCenter());
      ctx->MouseClick(1);
      ctx->Yield(3);
      ctx->ItemClick("//$FOCUSED/Copy the export command");
      ctx->Yield(2);
      text = ImGui::GetClipboardText();
    });
    return text;
  }
  static void click(const std::string& ref) {
    drive("click", [&](ImGuiTestContext* ctx) {
      ctx->ItemClick(ref.c_str());
      ctx->Yield(3);
    });
  }
  static void press(ImGuiKeyChord keys) {
    drive("press", [keys](ImGuiTestContext* ctx) {
      ctx->KeyPress(keys);
      ctx->Yield(3);
    });
  }
  // What stands in the view's window, without its border.
  static std::vector<std::uint8_t> pixels_of(const std::string& view) {
    drive("away", [](ImGuiTestContext* ctx) { ctx->MouseMoveToPos({1, 1}); });
    while (!explorer().messages().empty()) frames(1);  // they lie above views
    std::vector<std::uint8_t> part;
    app->after_render = [&] {
      const auto all = app->read_pixels();
      const ImGuiWindow* shown = window(view);
      const int left = static_cast<int>(shown->InnerRect.Min.x) + 2;
      const int right = static_cast<int>(shown->InnerRect.Max.x) - 2;
      for (int y = static_cast<int>(shown->InnerRect.Min.y) + 2;
           y < static_cast<int>(shown->InnerRect.Max.y) - 2; ++y) {
        const auto row = all.rgba.begin() + (static_cast<std::ptrdiff_t>(y) * all.width + left) * 4;
        part.insert(part.end(), row, row + static_cast<std::ptrdiff_t>(right - left) * 4);
      }
    };
    frames(1);
    app->after_render = nullptr;
    return part;
  }
};

TEST_F(WindowViews, ACopyStandsBesideItsViewWithOptionsOfItsOwn) {
  menu(kView, "Duplicate");
  ASSERT_TRUE(panels().visible(kView));
  ASSERT_TRUE(panels().visible(kCopy));
  EXPECT_FALSE(window(kView)->Rect().Overlaps(window(kCopy)->Rect()));
  EXPECT_THAT(window(kCopy)->Name, HasSubstr("KV map (2)"));

  click(in(kCopy, "/show/both"));
  EXPECT_EQ(selection().options.at("kv_map#2.show"), "both");
  EXPECT_EQ(selection().options.count("kv_map.show"), 0U);
  // The command of its menu is of what it shows.
  EXPECT_THAT(copied(kCopy), HasSubstr("--show both"));
  EXPECT_THAT(copied(kView), Not(HasSubstr("--show")));

  press(ImGuiMod_Ctrl | ImGuiKey_Z);
  EXPECT_EQ(selection().options.count("kv_map#2.show"), 0U);
  EXPECT_TRUE(panels().is_open(kCopy));
  press(ImGuiMod_Ctrl | ImGuiKey_Z);
  EXPECT_FALSE(panels().is_open(kCopy));
  press(ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_Z);
  EXPECT_TRUE(panels().visible(kCopy));
}

TEST_F(WindowViews, ACopyStartsAsItsViewIs) {
  click(in(kView, "/show/difference"));
  menu(kView, "Duplicate");
  EXPECT_EQ(selection().options.at("kv_map#2.show"), "difference");
  menu(kCopy, "Duplicate");
  EXPECT_TRUE(panels().is_open("kv_map#3"));
  EXPECT_EQ(selection().options.at("kv_map#3.show"), "difference");
}

TEST_F(WindowViews, ALockedViewStaysWhileTheRestFollows) {
  menu(kView, "Duplicate");
  menu(kCopy, "Lock here");
  const auto locked = pixels_of(kCopy), following = pixels_of(kView);
  ASSERT_FALSE(locked.empty());
  workspace().cursor.set_layer(3);
  workspace().cursor.set_chunk(4);
  workspace().cursor.set_method(Slot::A, "h2o:budget_tokens=64");
  workspace().cursor.show(Slot::B);
  settle();
  EXPECT_EQ(pixels_of(kCopy), locked);
  EXPECT_NE(pixels_of(kView), following);
  const state::ViewState words = panels().locks().at(kCopy);
  EXPECT_EQ(words.place.layer, 1);
  EXPECT_EQ(words.place.chunk, 7);
  EXPECT_THAT(words.methods.front(), HasSubstr("quoka"));

  // A or B is its own to choose, the keys that are watched are everybody's.
  click(in(kCopy, "/show/B"));
  EXPECT_EQ(panels().locks().at(kCopy).shown, Slot::B);
  workspace().cursor.show(Slot::A);
  EXPECT_EQ(panels().locks().at(kCopy).shown, Slot::B);
  const auto before = pixels_of(kCopy);
  workspace().cursor.set_keys(100, 400);
  settle();
  EXPECT_NE(pixels_of(kCopy), before);
}

TEST_F(WindowViews, ALockIsTakenAwayByItsXAndByUndo) {
  menu(kView, "Lock here");
  EXPECT_TRUE(panels().is_locked(kView));
  press(ImGuiMod_Ctrl | ImGuiKey_Z);
  EXPECT_FALSE(panels().is_locked(kView));
  press(ImGuiMod_Ctrl | ImGuiKey_Y);
  ASSERT_TRUE(panels().is_locked(kView));
  workspace().cursor.set_layer(2);
  click(in(kView, "/##unlock"));
  EXPECT_FALSE(panels().is_locked(kView));
  // Only the last of the two.
  press(ImGuiMod_Ctrl | ImGuiKey_Z);
  EXPECT_TRUE(panels().is_locked(kView));
  EXPECT_EQ(place().layer, 2);
  press(ImGuiMod_Ctrl | ImGuiKey_Z);
  EXPECT_EQ(place().layer, 1);
  menu(kView, "Unlock");
  EXPECT_FALSE(panels().is_locked(kView));
}

TEST_F(WindowViews, AClickInALockedViewMovesTheOthers) {
  menu(kView, "Duplicate");
  menu(kCopy, "Lock here");
  workspace().cursor.set_layer(3);
  const int chunk = place().chunk;
  drive("click", [](ImGuiTestContext* ctx) {
    const ImRect room = window(kCopy)->InnerRect;
    ctx->MouseMoveToPos(
        {room.Min.x + room.GetWidth() * 0.4F, room.Min.y + room.GetHeight() * 0.75F});
    ctx->MouseClick(0);
    ctx->Yield(3);
  });
  EXPECT_TRUE(place().has_keys());
  EXPECT_NE(place().chunk, chunk);
  EXPECT_EQ(panels().locks().at(kCopy).place.chunk, chunk);
}

TEST_F(WindowViews, ALockOutlivesOtherTracesAndSaysWhenItsOwnIsClosed) {
  menu(kView, "Duplicate");
  menu(kCopy, "Lock here");
  const int num_tokens = place().info().num_tokens;
  open(trace(1));
  workspace().cursor.set_perspective("kept");
  settle();
  ASSERT_NE(place().info().num_tokens, num_tokens);
  ASSERT_TRUE(panels().visible(kCopy));
  drive("shown",
        [](ImGuiTestContext* ctx) { IM_CHECK(ctx->ItemExists(in(kCopy, "/##unlock").c_str())); });
  workspace().traces.open(trace(0));
  settle();
  explorer().run_command("close");
  settle();
  EXPECT_EQ(workspace().traces.tabs().size(), 1U);
  drive("sentence", [](ImGuiTestContext* ctx) {
    IM_CHECK(!ctx->ItemExists(in(kCopy, "/##unlock").c_str()));
    IM_CHECK(ctx->ItemExists(in(kCopy, "/Unlock").c_str()));
    ctx->ItemClick(in(kCopy, "/Open it").c_str());
  });
  EXPECT_EQ(workspace().traces.tabs().size(), 2U);
  EXPECT_TRUE(panels().is_locked(kCopy));
  workspace().cursor.set_perspective("kept");
  settle();
  click(in(kCopy, "/##unlock"));
  EXPECT_FALSE(panels().is_locked(kCopy));
}

TEST_F(WindowViews, WhatIsTornOffStaysInsideAndIsDockedAgain) {
  const ImGuiID dock = window(kView)->DockId;
  menu(kView, "Tear off");
  frames(4);
  ASSERT_NE(window(kView)->DockId, dock);
  drive("away", [](ImGuiTestContext* ctx) {
    const std::string title = window(kView)->DockNode != nullptr
                                  ? fmt::format("//{}", window(kView)->DockNode->HostWindow->Name)
                                  : in(kView);
    ctx->WindowMove(title.c_str(), {1400, 700});
    ctx->Yield(3);
  });
  const ImRect room(ImGui::GetMainViewport()->WorkPos,
                    {ImGui::GetMainViewport()->WorkPos.x + ImGui::GetMainViewport()->WorkSize.x,
                     ImGui::GetMainViewport()->WorkPos.y + ImGui::GetMainViewport()->WorkSize.y});
  EXPECT_TRUE(room.Contains(window(kView)->Rect()));
  EXPECT_GT(window(kView)->Pos.x, room.Min.x + 100) << "it was not moved at all";
  menu(kView, "Dock again");
  frames(4);
  EXPECT_EQ(window(kView)->DockId, dock);
  EXPECT_TRUE(panels().visible(kView));
}

// Alone in its dock it takes the dock with it.
TEST_F(WindowViews, WhatLayAloneIsDockedAgainInItsPlace) {
  workspace().cursor.set_perspective("where");
  settle();
  explorer().run_command("layout.reset");
  settle();
  const shell::DockTree first = panels().layout().docks;
  ASSERT_EQ(first.sides.at(0).cut, shell::DockTree::Cut::Below);
  for (const char* view : {kView, "token_strip"}) {
    panels().tear_off(view);
    settle();
    ASSERT_FALSE(shell::lie_alike(panels().layout().docks, first)) << view;
    panels().dock_again(view);
    settle();
    EXPECT_TRUE(shell::lie_alike(panels().layout().docks, first)) << view;
  }
}

TEST_F(WindowViews, ATraceThatWasClosedComesBack) {
  open(trace(1));
  workspace().cursor.set_layer(3);
  const int id = workspace().traces.active()->id;
  click(fmt::format("//##MainMenuBar/##MenuBar/\u00D7##close{}", id));
  ASSERT_EQ(workspace().traces.tabs().size(), 1U);
  press(ImGuiMod_Ctrl | ImGuiKey_Z);
  ASSERT_EQ(workspace().traces.tabs().size(), 2U);
  EXPECT_EQ(workspace().traces.active()->path, trace(1));
  EXPECT_EQ(place().layer, 3);
}

TEST_F(WindowViews, ThatAViewWasOpenedIsTakenBackBeforeWhatCameEarlier) {
  workspace().cursor.set_layer(2);
  ASSERT_FALSE(panels().is_open(state::kMemoryWindow));
  explorer().run_command("view.memory");
  settle();
  ASSERT_TRUE(panels().visible(state::kMemoryWindow));
  press(ImGuiMod_Ctrl | ImGuiKey_Z);
  EXPECT_FALSE(panels().is_open(state::kMemoryWindow));
  EXPECT_EQ(place().layer, 2);
  press(ImGuiMod_Ctrl | ImGuiKey_Y);
  EXPECT_TRUE(panels().is_open(state::kMemoryWindow));
  // One that is open already comes to the front alone.
  explorer().run_command("view.memory");
  press(ImGuiMod_Ctrl | ImGuiKey_Z);
  EXPECT_FALSE(panels().is_open(state::kMemoryWindow));
  press(ImGuiMod_Ctrl | ImGuiKey_Z);
  EXPECT_EQ(place().layer, 1);
}

TEST_F(WindowViews, ATraceThatWasClosedIsReopenedAsAViewIs) {
  open(trace(1));
  workspace().cursor.set_layer(3);
  panels().open_here(state::kRunsWindow);
  settle();
  drive("close a view", [](ImGuiTestContext* ctx) {
    ctx->WindowClose(in("Runs").c_str());
    ctx->Yield(3);
  });
  press(ImGuiMod_Ctrl | ImGuiKey_W);
  ASSERT_EQ(workspace().traces.tabs().size(), 1U);
  // The last one first.
  press(ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_T);
  ASSERT_EQ(workspace().traces.tabs().size(), 2U);
  EXPECT_EQ(place().layer, 3);
  EXPECT_FALSE(panels().is_open(state::kRunsWindow));
  press(ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_T);
  EXPECT_TRUE(panels().is_open(state::kRunsWindow));
  EXPECT_EQ(workspace().traces.tabs().size(), 2U);
}

// One press closes one thing, and what was typed stays.
TEST_F(WindowViews, EscapeClosesNewCaptureAndKeepsWhatIsTyped) {
  workspace().cursor.set_keys(100, 110);
  explorer().capture().form().request() = {};
  drive("type", [](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_N);
    ctx->Yield(4);
    ctx->ItemClick("//###capture/**/##prompt");
    ctx->KeyChars("What is lost");
    ctx->Yield(2);
    ctx->KeyPress(ImGuiKey_Escape);
    ctx->Yield(3);
  });
  EXPECT_FALSE(explorer().capture().is_open());
  EXPECT_TRUE(place().has_keys());
  EXPECT_EQ(explorer().capture().form().request().text, "What is lost");
  drive("again", [](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_N);
    ctx->Yield(4);
    ctx->ItemClick("//###capture/**/##prompt");
    ctx->KeyChars("?");
    ctx->Yield(2);
    // A list in it comes first.
    ctx->ItemClick("//###capture/**/Add a method");
    ctx->Yield(3);
    IM_CHECK_GT(open_popups(), 0);
  });
  for (int i = 0; i < 3 && open_popups() > 0; ++i) press(ImGuiKey_Escape);
  EXPECT_EQ(open_popups(), 0);
  EXPECT_TRUE(explorer().capture().is_open());
  EXPECT_THAT(explorer().capture().form().request().text, HasSubstr("?"));
  press(ImGuiKey_Escape);
  EXPECT_FALSE(explorer().capture().is_open());
  EXPECT_TRUE(place().has_keys());
  press(ImGuiKey_Escape);
  EXPECT_FALSE(place().has_keys());
  explorer().capture().form().request() = {};
}

TEST_F(WindowViews, EscapeClosesEachThingAlone) {
  workspace().cursor.set_keys(100, 110);
  const auto one = [](const char* what, const std::function<void(ImGuiTestContext*)>& open) {
    drive("open", [&](ImGuiTestContext* ctx) {
      // In one script: the test engine closes what a script leaves open.
      open(ctx);
      ctx->Yield(4);
      EXPECT_EQ(open_popups(), 1) << what;
      ctx->KeyPress(ImGuiKey_Escape);
      ctx->Yield(3);
      EXPECT_EQ(open_popups(), 0) << what;
    });
    EXPECT_TRUE(place().has_keys()) << what;
  };
  const auto keys = [](ImGuiKeyChord chord) {
    return [chord](ImGuiTestContext* ctx) { ctx->KeyPress(chord); };
  };
  one("palette", keys(ImGuiMod_Ctrl | ImGuiKey_P));
  one("shortcuts", keys(ImGuiKey_F1));
  one("go to", keys(ImGuiMod_Ctrl | ImGuiKey_G));
  one("file dialog", keys(ImGuiMod_Ctrl | ImGuiKey_O));
  one("span", [](ImGuiTestContext* ctx) { ctx->ItemClick("//##transport/##span"); });
  one("text in span", [](ImGuiTestContext* ctx) {
    ctx->ItemClick("//##transport/##span");
    ctx->Yield(3);
    ctx->ItemClick("//$FOCUSED/##find span");
    ctx->KeyChars("magic");
  });
  one("tab", [](ImGuiTestContext* ctx) {
    ctx->MouseMoveToPos(window(kView)->DC.DockTabItemRect.GetCenter());
    ctx->MouseClick(1);
  });
  one("menu", [](ImGuiTestContext* ctx) { ctx->ItemClick("//##MainMenuBar/##MenuBar/View"); });
  one("name of a layout", [](ImGuiTestContext*) { explorer().run_command("layout.save"); });
}

// The typing ends, the note stays as typed, and its window open.
TEST_F(WindowViews, EscapeEndsTheTypingOfANote) {
  std::filesystem::remove(trace(0) + ".session.json");
  workspace().cursor.set_keys(100, 110);
  drive("note", [](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_D);
    ctx->Yield(4);
    ctx->KeyChars("kept");
    ctx->Yield(2);
    ctx->KeyPress(ImGuiKey_Escape);
    ctx->Yield(3);
  });
  EXPECT_FALSE(ImGui::GetIO().WantTextInput);
  EXPECT_TRUE(panels().is_open(state::kNotesWindow));
  EXPECT_TRUE(place().has_keys());
  explorer().notes().finish();
  const auto notes = shell::load_notes(trace(0));
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].text, "kept");
  EXPECT_EQ(explorer().notes().unsaved(), "");
  std::filesystem::remove(trace(0) + ".session.json");
}

// Last: the window wants to end after it.
TEST_F(WindowViews, ZClosingOverAnExportAsksFirst) {
  std::atomic<bool> released = false;
  auto& exporter = explorer().exporter();
  exporter.run_command = [&](const std::vector<std::string>&, const CancelToken&) {
    while (!released) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return std::string();
  };
  exporter.ask(*state::find_view(kView), state::Format::Png, ".");
  drive("save", [&released](ImGuiTestContext* ctx) {
    ctx->Yield(3);
    ctx->SetRef("//$FOCUSED");
    ctx->ItemInput("##name");
    ctx->KeyCharsReplace("asked.png");
    ctx->ItemClick("Save");
    ctx->Yield(3);
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Q);
    ctx->Yield(3);
    IM_CHECK_EQ(open_popups(), 1);
    ctx->KeyPress(ImGuiKey_Escape);
    ctx->Yield(3);
    IM_CHECK_EQ(open_popups(), 0);
    IM_CHECK(!explorer().wants_quit());
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Q);
    ctx->Yield(3);
    ctx->ItemClick("//$FOCUSED/Keep it running");
    ctx->Yield(2);
    IM_CHECK(!explorer().wants_quit());
    released = true;  // what follows waits for the export
  });
  EXPECT_FALSE(explorer().wants_quit());
  released = true;
  settle();
  drive("nothing is under way", [](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Q);
    ctx->Yield(2);
    IM_CHECK_EQ(open_popups(), 0);
  });
  EXPECT_TRUE(explorer().wants_quit());
}

}  // namespace
}  // namespace kvloupe
