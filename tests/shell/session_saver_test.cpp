// What a window that was killed had open stands there again at the next start, over real traces and
// without a display.
#include "app/shell/saved/session_saver.h"
#include "app/figure/headless.h"
#include "app/state/perspectives.h"
#include "app/state/view_fields.h"
#include "core/base/paths.h"
#include "tests/base/matchers.h"
#include "tests/gui/gui_trace.h"
#include "tests/gui/results_steps.h"
#include "tests/gui/workspace_steps.h"

#include <filesystem>
#include <fstream>
#include <optional>

namespace kvloupe {
namespace {

using state::Slot;

// A window without a screen. Without end() it is one that was killed.
class Window {
 public:
  explicit Window(const std::vector<std::string>& traces = {},
                  const std::optional<state::ViewState>& at = std::nullopt)
      : renderer_(640, 420, 1.0F),
        explorer(workspace, renderer_.gui(), shell::load_settings()),
        keeper(workspace, explorer, traces, at) {
    const std::string layout = shell::load_layout();
    ImGui::LoadIniSettingsFromMemory(layout.data(), layout.size());
    frames(2);
    for (int i = 0; i < 200 && workspace.answers.busy(); ++i) {
      test::settle(workspace);
      frames(1);
    }
  }
  void frames(int count) {
    for (int i = 0; i < count; ++i) {
      explorer.before_frame();
      renderer_.frame([&] { explorer.frame(); });
    }
  }
  std::vector<std::string> open() const {
    std::vector<std::string> names;
    for (const auto& tab : workspace.traces.tabs()) names.push_back(tab->name);
    return names;
  }

 private:
  figure::HeadlessRenderer renderer_;

 public:
  state::Workspace workspace;
  shell::Explorer explorer;
  shell::SessionSaver keeper;
};

class SessionSaver : public ::testing::Test {
 protected:
  SessionSaver() {
    const auto folder = std::filesystem::current_path() / "keeper";
    std::filesystem::remove_all(folder);
    paths::set_config_dir(folder);
  }
  static std::string trace(const std::string& name) {
    return test::write_gui_trace(
        name, {.num_tokens = 640, .runs = {"quoka:budget_tokens=64", test::kUnknownMethod}});
  }
};

TEST_F(SessionSaver, RestoresWhatWasLookedAt) {
  const std::string a = trace("a.h5"), b = trace("b.h5");
  state::Selection left;
  std::vector<state::MethodChoice> tried;
  {
    Window window({a, b});
    ASSERT_EQ(window.open(), (std::vector<std::string>{"a.h5", "b.h5"}));
    window.workspace.traces.open(a);
    state::Cursor& cursor = window.workspace.cursor;
    cursor.go_to(state::parse_goto("layer=1,q_head=4,chunk=3,query=400,key=40-52"));
    cursor.set_method(Slot::A, "h2o:budget_tokens=96");
    cursor.set_run(Slot::B, 1);
    cursor.set_more_methods(
        {state::choice_of_text("tova:budget_tokens=32", *window.workspace.place().trace)});
    cursor.show(Slot::B);
    cursor.set_option("layer_head_overview.metric", "entropy");
    cursor.set_device("sim");
    cursor.set_picture({.theme = state::ThemeKind::Dark, .width = 800, .height = 500, .scale = 2});
    window.workspace.cursor.set_perspective("much");
    window.explorer.panels().set_open({"latency@much"}, false);
    left = window.workspace.selection();
    tried = window.workspace.traces.ready()->tried;
    window.keeper.save_now();
  }
  Window window;
  EXPECT_EQ(window.open(), (std::vector<std::string>{"a.h5", "b.h5"}));
  ASSERT_TRUE(window.workspace.has_trace());
  EXPECT_EQ(window.workspace.traces.ready()->path, a);
  state::Selection now = window.workspace.selection();
  now.place.trace = left.place.trace;  // the same file, opened again
  EXPECT_TRUE(now == left);
  EXPECT_EQ(now.place.device, "sim");
  EXPECT_EQ(window.workspace.traces.ready()->tried, tried);
  EXPECT_FALSE(window.explorer.panels().is_open("latency"));
  EXPECT_TRUE(window.explorer.panels().is_open("method_compare"));
}

TEST_F(SessionSaver, ATraceWithANeedleOpensOnItAndThenWhereItWasLeft) {
  const std::string a = trace("a.h5");
  {
    Window window({a});
    EXPECT_EQ(window.workspace.option("layer_head_overview", "metric"), "span_kept");
    window.workspace.cursor.set_option("layer_head_overview.metric", "mass_recall");
    window.keeper.save_now();
  }
  Window window({a});
  EXPECT_EQ(window.workspace.option("layer_head_overview", "metric"), "mass_recall");
}

TEST_F(SessionSaver, ResultsOfAnEvaluationComeBackBesideTheTraces) {
  const std::string a = trace("a.h5");
  std::string results;
  {
    Window window({a});
    window.workspace.traces.open(test::results_file());
    test::settle(window.workspace);
    results = std::filesystem::absolute(window.workspace.results.path());
    EXPECT_EQ(window.workspace.selection().perspective, state::results_perspective().id);
    window.workspace.choose("task_scores", "across", "depth");
    window.workspace.results.show_methods({"quoka:budget_tokens=64", "snapkv:budget_tokens=64"});
    window.workspace.results.sight.against = "snapkv:budget_tokens=64";
    window.keeper.save_now();
  }
  {
    Window window;
    EXPECT_EQ(window.open(), std::vector<std::string>{"a.h5"});
    EXPECT_EQ(window.workspace.results.path(), results);
    EXPECT_EQ(window.workspace.option("task_scores", "across"), "depth");
    EXPECT_EQ(window.workspace.results.shown(),
              (std::vector<std::string>{"snapkv:budget_tokens=64", "quoka:budget_tokens=64"}));
    EXPECT_EQ(window.workspace.results.against(), "snapkv:budget_tokens=64");
    EXPECT_EQ(window.workspace.selection().perspective, state::results_perspective().id);
    // Another trace that is opened now is what is wanted to be seen.
    window.workspace.traces.open(trace("b.h5"));
    test::settle(window.workspace);
    EXPECT_NE(window.workspace.selection().perspective, state::results_perspective().id);
    window.workspace.results.close();
    window.keeper.save_now();
  }
  Window window;
  EXPECT_FALSE(window.workspace.results.is_open());
}

TEST_F(SessionSaver, CopiesAndLocksComeBack) {
  const std::string a = trace("a.h5");
  std::map<std::string, state::ViewState> left;
  {
    Window window({a});
    window.workspace.cursor.set_perspective("kept");
    window.workspace.cursor.set_layer(1);
    window.workspace.cursor.set_chunk(3);
    window.frames(3);
    shell::PanelHost& panels = window.explorer.panels();
    panels.duplicate("kv_map");
    panels.lock("kv_map#2");
    window.frames(8);
    EXPECT_TRUE(panels.visible("kv_map#2"));
    window.workspace.cursor.set_layer(2);
    left = panels.locks();
    window.keeper.save_now();
  }
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left["kv_map#2"].place.layer, 1);
  Window window;
  window.frames(8);  // tabs come to the front one after the other
  EXPECT_TRUE(window.explorer.panels().is_open("kv_map#2"));
  EXPECT_TRUE(window.explorer.panels().visible("kv_map#2"));
  EXPECT_EQ(window.explorer.panels().locks(), left);
  EXPECT_EQ(window.workspace.place().layer, 2);
}

// Another window was elsewhere in the same trace, and kept its place later.
TEST_F(SessionSaver, AWindowGoesOnAtItsOwnPlace) {
  const std::string a = trace("a.h5");
  {
    Window window({a});
    window.workspace.cursor.set_chunk(1);
  }
  state::ViewState other = *shell::find_place(a);
  EXPECT_EQ(other.place.chunk, 1);
  other.place.chunk = 3;
  shell::save_places({other});
  {
    Window window;
    EXPECT_EQ(window.workspace.place().chunk, 1);
  }
  // A trace that is opened by name is opened where it was left last.
  shell::save_places({other});
  Window window({a});
  EXPECT_EQ(window.workspace.place().chunk, 3);
}

// As version 1.0 wrote it.
TEST_F(SessionSaver, PlacesOfAnEarlierVersionOpen) {
  const std::string a = trace("a.h5");
  std::ofstream(paths::state_dir() / "places.json")
      << R"([{"trace": ")" << a << R"(", "goto": "layer=1,q_head=4,chunk=3,key=40-52",)"
      << R"( "methods": ["h2o:budget_tokens=96", "run:1"], "shown": "B",)"
      << R"( "more": ["tova:budget_tokens=32"], "tried": ["dense"],)"
      << R"( "options": {"layer_head_overview.metric": "entropy"}, "device": "sim"}])";
  Window window({a});
  ASSERT_TRUE(window.workspace.has_trace());
  const state::Selection& now = window.workspace.selection();
  EXPECT_EQ(state::goto_text(now.place), "layer=1,q_head=4,chunk=3,key=40-52");
  EXPECT_EQ(now.place.device, "sim");
  EXPECT_EQ(now.choice(Slot::A).id(), "h2o");
  EXPECT_EQ(now.choice(Slot::B).run, 1);
  EXPECT_EQ(now.shown, Slot::B);
  ASSERT_EQ(now.more.size(), 1U);
  EXPECT_EQ(now.more[0].id(), "tova");
  EXPECT_EQ(now.options.at("layer_head_overview.metric"), "entropy");
  ASSERT_EQ(window.workspace.traces.ready()->tried.size(), 1U);
  EXPECT_EQ(window.workspace.traces.ready()->tried[0].id(), "dense");
}

TEST_F(SessionSaver, ATraceIsOpenedWhereALinkSays) {
  const std::string a = trace("a.h5");
  Window window({a}, state::parse_link("layer=1,chunk=2;method=dense;method=run:0;shown=B"));
  ASSERT_TRUE(window.workspace.has_trace());
  EXPECT_EQ(window.workspace.place().chunk, 2);
  EXPECT_EQ(window.workspace.method(Slot::A).id(), "dense");
  EXPECT_EQ(window.workspace.method().run, 0);
}

TEST_F(SessionSaver, ATraceThatIsGoneIsToldOnceAndLeavesNoTab) {
  const std::string a = trace("a.h5"), gone = trace("gone.h5");
  { Window window({a, gone}); }
  std::filesystem::remove(gone);
  Window window;
  EXPECT_EQ(window.open(), std::vector<std::string>{"a.h5"});
  ASSERT_EQ(window.explorer.messages().history().size(), 1U);
  EXPECT_THAT(window.explorer.messages().history()[0], HasSubstr("gone.h5"));
}

TEST_F(SessionSaver, ANameOfAnyBytesComesBack) {
  const std::string strange = trace("\xff\xfe##%s\n.h5");
  { Window window({strange}); }
  Window window;
  ASSERT_TRUE(window.workspace.has_trace());
  EXPECT_EQ(window.workspace.traces.ready()->path, strange);
}

TEST_F(SessionSaver, HostilePlacesAreDefaults) {
  const std::string a = trace("a.h5");
  for (const std::string& entry :
       {std::string(R"({"goto": "layer=999999999,chunk=3", "methods": [7, {}], "more": "x"})"),
        std::string(R"({"device": "##%n%s\n"})"), std::string(R"({"device": {}})"),
        std::string(R"({"goto": 3, "methods": ["quoka:budget_tokens=-1", "##%s"], "shown": [1]})"),
        std::string(R"({"options": {"kv_map.": "x", "nothing.metric": "y", "latency": {}}})"),
        std::string(R"({"options": {"layer_head_overview.metric": "%n%n"}, "tried": [[1], null]})"),
        R"({"more": [")" + std::string(100'000, 'q') + R"("]})"}) {
    std::ofstream(paths::state_dir() / "places.json")
        << "[{\"trace\": \"" << a << "\", " << entry.substr(1) << ", 3, null]";
    Window window({a});
    ASSERT_TRUE(window.workspace.has_trace()) << entry.substr(0, 60);
    EXPECT_FALSE(window.workspace.method(Slot::A).empty());
    EXPECT_TRUE(window.workspace.selection().options.empty());
    EXPECT_TRUE(window.explorer.messages().history().empty());
  }
}

TEST_F(SessionSaver, HostileLayoutsAreSurvived) {
  const std::string a = trace("a.h5");
  const std::string head = "[Docking][Data]\n";
  for (const std::string& layout :
       {std::string("[Window][a\n[][]\nPos=1"), std::string(50'000, '['),
        head + "DockSpace ID=0x1 Window=0x2 Pos=0,0 Size=-1,-1 Split=X\n  DockNode ID=0x1 "
               "Parent=0x1\n",
        head + "DockNode ID=0x1 Parent=0x2\nDockNode ID=0x2 Parent=0x1\n",
        head + "DockNode ID=0x1\nDockNode ID=0x2 Parent=0x1\nDockNode ID=0x3 Parent=0x1\nDockNode "
               "ID=0x4 Parent=0x1\nDockNode ID=0x4 Parent=0x1 Split=Y Selected=0x9\n",
        std::string("[Window][###kv_map]\nPos=2147483647,-2147483648\nSize=1,1\nDockId=0x7,99\n"),
        std::string("[Table][0x1,9999]\nRefScale=nan\nColumn 88888 Width=-3 Sort=9v\n")}) {
    shell::save_layout(layout);
    Window window({a});
    window.frames(8);
    EXPECT_TRUE(window.workspace.has_trace()) << layout.substr(0, 60);
  }
}

}  // namespace
}  // namespace kvloupe
