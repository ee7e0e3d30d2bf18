// A trace whose model, spans, tokens, runs and file have names that mean something to Dear ImGui, to
// printf, to a terminal or to nobody: every view shows it, and nothing of it acts.
#include "app/state/view_list.h"
#include "tests/gui/window_fixture.h"

#include <gmock/gmock.h>

#include <filesystem>

namespace kvloupe {
namespace {

using state::Slot;

class HostileNames : public test::WindowTest {
 protected:
  static const std::vector<std::string>& names() {
    static const std::vector<std::string> all = {"##hidden",
                                                 "a###b",
                                                 "%s%n%s%d",
                                                 "%",
                                                 "line\nend\r\ttab",
                                                 "\x1b[2J\x07",
                                                 "\xff\xfe\xc3",
                                                 std::string(20'000, 'W'),
                                                 "\u202Eright to left",
                                                 "",
                                                 " ",
                                                 "//Runs/**",
                                                 "quoka:budget_tokens=4##x",
                                                 "\u0301\u0301",
                                                 "\U0001F600",
                                                 "method A"};
    return all;
  }
  static const std::string& trace() {
    static const std::string path =
        test::write_gui_trace("##evil%s\x1b\xff###x.h5", {.num_tokens = 640,
                                                          .decoded = 2,
                                                          .runs = {"quoka:budget_tokens=64"},
                                                          .hostile_names = names()});
    return path;
  }
};

TEST_F(HostileNames, EveryViewShowsThem) {
  open_alone(trace());
  const std::vector<trace::RunInfo> runs = place().info().runs;
  ASSERT_GE(runs.size(), names().size());  // one without a name is passed over
  const std::size_t messages = explorer().messages().history().size();
  for (std::size_t i = 0; i < runs.size(); i += 3) {
    workspace().cursor.set_run(Slot::A, runs[i].id);
    workspace().cursor.set_run(Slot::B, runs[(i + 1) % runs.size()].id);
    for (const state::ViewInfo& view : state::views()) {
      if (view.shows_results) continue;
      explorer().panels().show(view.id);
      frames(6);
      ASSERT_TRUE(explorer().panels().visible(view.id)) << view.id;
    }
    settle();
  }
  for (std::size_t i = messages; i < explorer().messages().history().size(); ++i)
    ADD_FAILURE() << explorer().messages().history()[i];
}

// By mouse over all of the window, so that every tooltip is drawn, and through menus and lists.
TEST_F(HostileNames, TooltipsAndListsShowThem) {
  open_alone(trace());
  for (const state::ViewInfo& view : state::views()) {
    if (view.shows_results) continue;
    explorer().panels().show(view.id);
    frames(4);
    ImGuiWindow* window = ImGui::FindWindowByName(explorer().panels().window_of(view.id).c_str());
    ASSERT_NE(window, nullptr) << view.id;
    for (float y = window->Rect().Min.y + 4; y < window->Rect().Max.y; y += 53)
      for (float x = window->Rect().Min.x + 4; x < window->Rect().Max.x; x += 131) {
        ImGui::GetIO().AddMousePosEvent(x, y);
        frames(1);
      }
  }
  drive("menus", [](ImGuiTestContext* ctx) {
    ctx->SetRef("##MainMenuBar");
    ctx->MenuAction(ImGuiTestAction_Hover, "File/Recent");
    ctx->Yield(6);
    ctx->PopupCloseAll();
    ctx->ItemClick("//##transport/###method A button");
    ctx->Yield(6);
    ctx->PopupCloseAll();
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_O);
    ctx->Yield(6);
    ctx->KeyPress(ImGuiKey_Escape);  // the dialog asks until it is answered
    ctx->Yield(6);
  });
  explorer().panels().show("Runs");
  frames(4);
  save_picture("hostile.png");
}

// Whatever a run is called, its row is its own.
TEST_F(HostileNames, EachRunIsChosenByItsRow) {
  open_alone(trace());
  for (const int row : {1, 4, 7, 10}) {
    drive("choose", [row](ImGuiTestContext* ctx) {
      ctx->ItemClick((in("Runs", "/runs/$$") + std::to_string(row) + "/B").c_str());
      ctx->Yield(3);
    });
    EXPECT_EQ(selection().choice(Slot::B).run,
              place().info().runs[static_cast<std::size_t>(row)].id);
  }
}

}  // namespace
}  // namespace kvloupe
