// Layouts saved by name, chosen, deleted, reset, and exchanged as files, by mouse and keyboard.
#include "app/shell/frame/dock_tree.h"
#include "app/shell/saved/layout_file.h"
#include "core/base/error.h"
#include "tests/base/matchers.h"
#include "tests/base/temporary_folder.h"
#include "tests/gui/window_fixture.h"

#include <GLFW/glfw3.h>
#include <fmt/format.h>
#include <imgui_internal.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

namespace kvloupe {
namespace {

constexpr const char* kView = "kv_map";
constexpr const char* kCopy = "kv_map#2";

class WindowLayouts : public test::WindowTest {
 protected:
  static void SetUpTestSuite() {
    std::filesystem::remove_all("config/layouts");
    WindowTest::SetUpTestSuite();
  }
  void SetUp() override {
    static const std::string path = test::write_gui_trace("layouts.h5");
    open_alone(path);
    workspace().cursor.change("", [](state::Selection& s) {
      s.options.clear();
      s.perspective = "kept";
      s.place.layer = 1;
    });
    explorer().run_command("layout.reset");
    settle();
  }
  static shell::PanelHost& panels() { return explorer().panels(); }
  static ImGuiWindow* window(const std::string& view) {
    return ImGui::FindWindowByName(panels().window_of(view).c_str());
  }
  static std::vector<std::string> names() {
    std::vector<std::string> names;
    for (const shell::Layout& layout : explorer().layouts().all()) names.push_back(layout.name);
    return names;
  }
  // In one script: the test engine closes the dialogs that a script leaves open.
  static void choose(const std::string& entry,
                     const std::function<void(ImGuiTestContext*)>& then = {}) {
    drive("menu", [&](ImGuiTestContext* ctx) {
      ctx->SetRef("##MainMenuBar");
      ctx->MenuClick(("View/Layouts/" + entry).c_str());
      ctx->Yield(6);
      if (then) then(ctx);
    });
  }
  static void save_as(const std::string& name) {
    choose("Save layout as\u2026", [&](ImGuiTestContext* ctx) {
      ctx->SetRef("//$FOCUSED");
      ctx->ItemInput("##name");
      ctx->KeyCharsReplaceEnter(name.c_str());
      ctx->Yield(3);
    });
  }
  static void choose_file(const std::string& entry, const std::string& file, const char* button) {
    choose(entry, [&](ImGuiTestContext* ctx) {
      ctx->SetRef("//$FOCUSED");
      ctx->ItemInput("##name");
      ctx->KeyCharsReplace(file.c_str());
      ctx->ItemClick(button);
      ctx->Yield(6);
    });
  }
  // The KV map twice, the copy locked, with the difference; the token strip torn off; runs closed.
  static void arrange() {
    panels().duplicate(kView);
    settle();
    panels().lock(kCopy);
    workspace().cursor.set_option("kv_map.show", "both");
    panels().tear_off("token_strip");
    panels().set_open({"Runs@kept"}, false);
    settle();
  }
};

TEST_F(WindowLayouts, WhatWasSavedStandsThereAgain) {
  arrange();
  const shell::Layout saved = panels().layout();
  ASSERT_EQ(saved.torn_off.size(), 1U);
  ASSERT_EQ(saved.locks.count(kCopy), 1U);
  save_as("My two maps");
  EXPECT_THAT(names(), ElementsAre("My two maps"));
  explorer().layouts().finish();
  EXPECT_TRUE(std::filesystem::exists(shell::layout_path("My two maps")));

  explorer().run_command("layout.reset");
  workspace().cursor.set_option("kv_map.show", "");
  settle();
  ASSERT_FALSE(panels().is_open(kCopy));
  ASSERT_TRUE(panels().is_open("Runs"));
  EXPECT_THAT(panels().layout().torn_off, IsEmpty());
  const shell::Layout first = panels().layout();
  workspace().cursor.set_perspective("much");
  settle();
  choose("###layout My two maps");
  settle();
  EXPECT_EQ(selection().perspective, "kept");
  EXPECT_TRUE(panels().visible(kView));
  EXPECT_TRUE(panels().visible(kCopy));
  EXPECT_FALSE(panels().is_open("Runs"));
  EXPECT_TRUE(panels().is_locked(kCopy));
  EXPECT_EQ(selection().options.at("kv_map.show"), "both");
  const shell::Layout again = panels().layout();
  EXPECT_EQ(shell::views_in(again), shell::views_in(saved));
  EXPECT_EQ(again.locks, saved.locks);
  ASSERT_EQ(again.torn_off.size(), 1U);
  EXPECT_NEAR(again.torn_off[0].x, saved.torn_off[0].x, 0.02);
  EXPECT_NEAR(again.torn_off[0].width, saved.torn_off[0].width, 0.02);
  EXPECT_NEAR(again.docks.share, saved.docks.share, 0.02);

  drive("undo", [](ImGuiTestContext* ctx) { ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Z); });
  EXPECT_FALSE(panels().is_open(kCopy));
  EXPECT_FALSE(panels().is_locked(kCopy));
  EXPECT_EQ(shell::views_in(panels().layout()), shell::views_in(first));
}

TEST_F(WindowLayouts, AResetIsTakenBack) {
  arrange();
  const shell::Layout arranged = panels().layout();
  drive("reset", [](ImGuiTestContext* ctx) {
    ctx->SetRef("##MainMenuBar");
    ctx->MenuClick("View/Reset the layout of this workspace");
    ctx->Yield(4);
  });
  EXPECT_FALSE(panels().is_open(kCopy));
  EXPECT_FALSE(panels().is_locked(kCopy));
  drive("undo", [](ImGuiTestContext* ctx) { ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Z); });
  EXPECT_TRUE(panels().visible(kCopy));
  EXPECT_TRUE(panels().is_locked(kCopy));
  EXPECT_EQ(shell::views_in(panels().layout()), shell::views_in(arranged));
}

TEST_F(WindowLayouts, OneIsReplacedAndDeletedByName) {
  save_as("a");
  save_as("b");
  const std::size_t before = shell::views_in(explorer().layouts().all()[0]).size();
  panels().set_open({"Runs@kept"}, false);
  settle();
  save_as("a");
  EXPECT_THAT(names(), ::testing::IsSupersetOf({"a", "b"}));
  EXPECT_EQ(shell::views_in(*std::find_if(explorer().layouts().all().begin(),
                                          explorer().layouts().all().end(),
                                          [](const auto& l) { return l.name == "a"; }))
                .size(),
            before - 1);
  choose("Delete/###delete a");
  EXPECT_THAT(names(), Not(Contains("a")));
  explorer().layouts().finish();
  EXPECT_FALSE(std::filesystem::exists(shell::layout_path("a")));
  drive("undo", [](ImGuiTestContext* ctx) { ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Z); });
  EXPECT_THAT(names(), Contains("a"));
}

TEST_F(WindowLayouts, AFileIsExchanged) {
  const TemporaryFolder folder;
  arrange();
  const shell::Layout arranged = panels().layout();
  const std::string file = (folder / "shared.json").string();
  choose_file("Export this layout\u2026", file, "Save");
  settle();
  ASSERT_TRUE(std::filesystem::exists(file));
  explorer().run_command("layout.reset");
  settle();
  choose_file("Import a layout\u2026", file, "Open");
  settle();
  frames(8);
  EXPECT_TRUE(panels().visible(kCopy));
  EXPECT_EQ(shell::views_in(panels().layout()), shell::views_in(arranged));
  // Dropped on the window it is the same.
  explorer().run_command("layout.reset");
  settle();
  ASSERT_FALSE(panels().is_open(kCopy));
  explorer().take_dropped({file});
  settle();
  frames(8);
  EXPECT_TRUE(panels().visible(kCopy));
  // What is there is not written over.
  std::ofstream(folder / "mine.txt") << "mine";
  choose_file("Export this layout\u2026", (folder / "mine.txt").string(), "Save");
  settle();
  EXPECT_THAT(explorer().messages().history().back(), HasSubstr("is there already"));
  EXPECT_EQ(std::filesystem::file_size(folder / "mine.txt"), 4U);
}

// A smaller window has smaller docks, not the large view what is left. As at first it is laid out as
// one of that size; what somebody arranged keeps its shares.
TEST_F(WindowLayouts, DocksFollowTheSizeOfTheWindow) {
  const auto resize = [](int width, int height) {
    glfwSetWindowSize(glfwGetCurrentContext(), width, height);
    frames(12);
  };
  for (const state::Perspective& one : state::perspectives()) {
    if (one.of_results) continue;  // there while they are open
    SCOPED_TRACE(one.id);
    resize(1560, 860);
    workspace().cursor.set_perspective(one.id);
    explorer().run_command("layout.reset");
    settle();
    const shell::DockTree wide = panels().layout().docks;
    resize(1000, 700);
    const shell::DockTree narrow = panels().layout().docks;
    EXPECT_TRUE(narrow.sides.empty()) << "no room beside or below the large view";
    save_picture("small " + one.id + ".png");
    resize(1560, 700);
    EXPECT_NE(panels().layout().docks.cut, shell::DockTree::Cut::Below);
    resize(1560, 860);
    EXPECT_TRUE(shell::lie_alike(panels().layout().docks, wide));
    resize(1000, 700);
    explorer().run_command("layout.reset");
    settle();
    EXPECT_TRUE(shell::lie_alike(panels().layout().docks, narrow));
  }
  resize(1560, 860);
  workspace().cursor.set_perspective("kept");
  explorer().run_command("layout.reset");
  settle();
  panels().duplicate(kView);
  settle();
  const shell::DockTree arranged = panels().layout().docks;
  for (const int width : {1400, 1200, 1000, 1000, 1300, 1560}) {
    resize(width, width * 5 / 8);
    EXPECT_TRUE(shell::lie_alike(panels().layout().docks, arranged)) << width;
  }
  resize(1560, 860);
}

// What is torn off has the same share of a window of another size, and lies inside it.
TEST_F(WindowLayouts, WhatIsTornOffFollowsTheSizeOfTheWindow) {
  const auto resize = [](int width, int height) {
    glfwSetWindowSize(glfwGetCurrentContext(), width, height);
    frames(12);
  };
  panels().tear_off("token_strip");
  settle();
  const auto torn = [] { return panels().layout().torn_off; };
  ASSERT_EQ(torn().size(), 1U);
  const shell::TornOff before = torn()[0];
  ASSERT_GT(before.width, 0.3F);
  const ImVec2 large = window("token_strip")->Size;
  resize(1000, 700);
  save_picture("torn off small.png");
  ASSERT_EQ(torn().size(), 1U);
  EXPECT_NEAR(torn()[0].width, before.width, 0.01);
  EXPECT_NEAR(torn()[0].height, before.height, 0.01);
  EXPECT_NEAR(torn()[0].x, before.x, 0.01);
  EXPECT_NEAR(torn()[0].y, before.y, 0.01);
  EXPECT_LT(window("token_strip")->Size.x, large.x * 0.8F);
  // What stays docked is laid out as in any window of that size.
  EXPECT_TRUE(panels().layout().docks.sides.empty());
  resize(1560, 860);
  EXPECT_FALSE(panels().layout().docks.sides.empty());
  EXPECT_NEAR(window("token_strip")->Size.x, large.x, 8);
  // Also where one view filled the window meanwhile.
  panels().fill(kView);
  frames(4);
  resize(1000, 700);
  panels().unfill();
  frames(12);
  EXPECT_NEAR(torn()[0].width, before.width, 0.01);
  EXPECT_NEAR(torn()[0].x, before.x, 0.01);
  EXPECT_TRUE(panels().layout().docks.sides.empty());
  resize(1560, 860);
  panels().dock_again("token_strip");
  settle();
  EXPECT_THAT(torn(), IsEmpty());
}

// What lies beside the large view has its pixels, the large view the rest: shares are those on screen also where a side
// has nothing any more.
TEST_F(WindowLayouts, ASideThatIsClosedLeavesItsRoom) {
  panels().duplicate(kView);
  settle();
  panels().set_open({"selected_vs_true@kept", "Runs@kept"}, false);
  settle();
  const shell::DockTree docks = panels().layout().docks;
  ASSERT_EQ(docks.cut, shell::DockTree::Cut::Beside);
  const float first = window(kView)->Size.x, second = window(kCopy)->Size.x;
  EXPECT_NEAR(docks.share, first / (first + second), 0.01);
  EXPECT_GT(std::abs(docks.share - 0.5F), 0.05F) << "else this shows nothing";
}

// Every one has one sentence, and changes nothing.
TEST_F(WindowLayouts, HostileFilesChangeNothing) {
  arrange();
  shell::Layout good = panels().layout();
  good.name = "good";
  const std::string text = shell::text_of(good);
  EXPECT_EQ(shell::layout_of_text(text, "good.json"), good);

  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return changed.replace(at, from.size(), to);
  };
  std::string binary("\x7f\x45\x4c\x46\x00\xff\xfe", 7);
  for (int i = 0; i < 4096; ++i) binary += static_cast<char>(i * 37);
  const std::vector<std::string> bad{
      "",
      "{",
      "[]",
      "null",
      "\"\"",
      "{}",
      binary,
      text.substr(0, text.size() / 2),
      std::string(100000, '['),
      std::string(3 << 20, ' ') + text,
      std::string(2 << 20, 'x'),
      "{\"docks\":" + std::string(50000, '{'),
      with("kvloupe-layout", "other"),
      with("\"version\": 1", "\"version\": 2"),
      with("\"version\": 1", "\"version\": \"1\""),
      with("\"kept\"", "\"nowhere\""),
      with("\"good\"", "\"\""),
      with("\"good\"", "\"a\\u001bb\""),
      with("\"good\"", "\"" + std::string(500, 'n') + "\""),
      with("\"kv_map#2\"", "\"kv_map\""),
      with("\"kv_map#2\"", "\"kv_map#99\""),
      with("\"kv_map#2\"", "7"),
      with("\"share\": 0", "\"share\": -1e300"),
      with("\"share\":", "\"part\":"),
      with("\"sides\": [", "\"sides\": [ {\"views\": []},"),
      with("\"large\": true", "\"large\": 1"),
      with("\"beside\"", "\"around\""),
      with("\"front\": \"", "\"front\": \"no"),
      with("\"locks\": {", "\"locks\": {\"latency\": {},"),
      with("\"locks\": {", "\"locks\": [{"),
      with("\"options\": {", "\"options\": {\"kv_map.show\": \"everything\", \"x\": 1,"),
      with("\"options\": {", "\"options\": {\"no_view.show\": \"both\","),
      with("\"torn_off\": [", "\"torn_off\": [{\"x\": 1e999},"),
      with("goto", "gone")};
  explorer().run_command("layout.reset");
  settle();
  const shell::Layout before = panels().layout();
  const auto before_names = names();
  const TemporaryFolder folder;
  const std::string file = (folder / "bad.json").string();
  for (std::size_t i = 0; i < bad.size(); ++i) {
    try {
      shell::layout_of_text(bad[i], "bad.json");
      ADD_FAILURE() << "taken: " << i << " " << bad[i].substr(0, 200);
    } catch (const Error& error) {
      const std::string sentence = error.what();
      EXPECT_THAT(sentence, HasSubstr("bad.json is not used as a layout"));
      EXPECT_LT(sentence.size(), 300U) << sentence;
      EXPECT_EQ(sentence.find('\n'), std::string::npos);
    }
  }
  // By the menu, as a person does.
  for (const std::size_t i : {std::size_t{6}, std::size_t{8}, std::size_t{10}}) {
    std::ofstream(file, std::ios::binary) << bad[i];
    choose_file("Import a layout\u2026", file, "Open");
    settle();
    EXPECT_THAT(explorer().messages().history().back(), HasSubstr("is not used as a layout"));
  }
  EXPECT_EQ(names(), before_names);
  EXPECT_EQ(shell::views_in(panels().layout()), shell::views_in(before));
  EXPECT_FALSE(panels().is_open(kCopy));
}

}  // namespace
}  // namespace kvloupe
