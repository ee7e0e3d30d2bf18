// Drives the real window under Xvfb with the Dear ImGui Test Engine: opens traces, clicks, scrubs,
// changes the method, and holds the state behind the window to what was done. One window serves all
// cases.
#include "app/figure/headless.h"
#include "app/shell/app_window.h"
#include "core/base/paths.h"
#include "tests/gui/synthetic_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imgui_test_engine/imgui_te_context.h>
#include <imgui_test_engine/imgui_te_engine.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <random>
#include <thread>

namespace kvloupe {
namespace {

using Clock = std::chrono::steady_clock;
using state::Slot;
using ::testing::HasSubstr;

constexpr const char* kSynthetic = "/synthetic.h5";

class WindowTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    paths::set_config_dir(std::filesystem::current_path() / "config");
    shell::AppWindow::Options options;
    options.remember = false;
    options.vsync = false;
    options.settings.window_width = 1560;
    options.settings.window_height = 860;
    options.opener = [](const std::string& path, std::uint64_t limit) -> state::TraceSourcePtr {
      if (path == kSynthetic) return std::make_shared<test::SyntheticSource>();
      return state::open_trace(path, limit);
    };
    app = std::make_unique<shell::AppWindow>(std::move(options));
    engine = ImGuiTestEngine_CreateContext();
    ImGuiTestEngineIO& io = ImGuiTestEngine_GetIO(engine);
    io.ConfigRunSpeed = ImGuiTestRunSpeed_Fast;
    io.ConfigVerboseLevel = ImGuiTestVerboseLevel_Warning;
    io.ConfigVerboseLevelOnError = ImGuiTestVerboseLevel_Info;
    io.ConfigLogToTTY = true;
    io.ConfigSavedSettings = false;
    ImGuiTestEngine_Start(engine, app->gui().imgui());
  }
  static void TearDownTestSuite() {
    ImGuiTestEngine_Stop(engine);
    app.reset();
    ImGuiTestEngine_DestroyContext(engine);
  }

  static void frames(int count) {
    for (int i = 0; i < count; ++i) {
      app->frame();
      ImGuiTestEngine_PostSwap(engine);
    }
  }
  // Until nothing is computed, drawing all the while.
  static void settle() {
    const auto end = Clock::now() + std::chrono::seconds(30);
    frames(4);
    while (app->workspace().busy() && Clock::now() < end) frames(1);
    frames(2);
  }
  static void open(const std::string& path) {
    app->workspace().open(path);
    settle();
    ASSERT_NE(app->workspace().ready(), nullptr) << path;
  }
  // Runs one script of the test engine to its end.
  static void drive(const char* name, std::function<void(ImGuiTestContext*)> script) {
    ImGuiTest* test = ImGuiTestEngine_RegisterTest(engine, "window", name, __FILE__, __LINE__);
    test->TestFunc = std::move(script);
    ImGuiTestEngine_QueueTest(engine, test);
    const auto end = Clock::now() + std::chrono::seconds(60);
    while (!ImGuiTestEngine_IsTestQueueEmpty(engine) && Clock::now() < end) frames(1);
    EXPECT_EQ(test->Output.Status, ImGuiTestStatus_Success) << name;
    settle();
  }
  // What the window looked like when something went wrong, beside the test's other output.
  void TearDown() override {
    if (!HasFailure()) return;
    const std::string file =
        std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) + ".png";
    app->after_render = [&] {
      const auto pixels = app->read_pixels();
      figure::write_png(file, {pixels.width, pixels.height, pixels.rgba});
    };
    frames(1);
    app->after_render = nullptr;
  }
  static const state::Selection& selection() { return app->workspace().selection(); }

  static std::unique_ptr<shell::AppWindow> app;
  static ImGuiTestEngine* engine;
};

std::unique_ptr<shell::AppWindow> WindowTest::app;
ImGuiTestEngine* WindowTest::engine = nullptr;

TEST_F(WindowTest, OpensATraceFromTheDialog) {
  const std::string trace = std::filesystem::weakly_canonical(std::string(KVLOUPE_TEST_SOURCE_DIR) +
                                                              "/../data/goldens/group3_f16.h5");
  drive("open", [&](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_O);
    ctx->Yield(4);
    ctx->SetRef("//$FOCUSED");
    ctx->ItemInputValue("##name", trace.c_str());
    ctx->Yield(4);
  });
  ASSERT_NE(app->workspace().ready(), nullptr);
  EXPECT_EQ(app->workspace().ready()->path, trace);
  // Its views are there, on real data.
  const auto map = app->workspace().kv_map(selection().shown);
  EXPECT_EQ(map.state, state::ResultState::Ready) << map.error;
  drive("close", [](ImGuiTestContext* ctx) { ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_W); });
  EXPECT_EQ(app->workspace().active(), nullptr);
}

TEST_F(WindowTest, ADamagedFileIsExplainedAndTheWindowGoesOn) {
  app->workspace().open(__FILE__);
  settle();
  EXPECT_EQ(app->workspace().active()->state, state::ResultState::Error);
  EXPECT_FALSE(app->workspace().active()->error.empty());
  app->workspace().close_active();
  settle();
}

TEST_F(WindowTest, TabsShowTheirViews) {
  open(kSynthetic);
  EXPECT_TRUE(app->explorer().panel_visible("kv_map"));
  EXPECT_FALSE(app->explorer().panel_visible("attention_map"));
  for (const char* id :
       {"attention_map", "query_geometry", "query_relevance", "latency", "token_strip", "kv_map"}) {
    drive(id, [id](ImGuiTestContext* ctx) {
      ImGuiWindow* window = ctx->GetWindowByRef((std::string("//###") + id).c_str());
      IM_CHECK(window != nullptr);
      ctx->MouseMoveToPos(window->DC.DockTabItemRect.GetCenter());
      ctx->MouseClick(0);
      ctx->Yield(3);
    });
    ASSERT_TRUE(app->explorer().panel_visible(id)) << id;
  }
}

TEST_F(WindowTest, TransportStepsScrubsAndPlays) {
  open(kSynthetic);
  app->workspace().set_chunk(5);
  drive("buttons", [](ImGuiTestContext* ctx) {
    ctx->ItemClick("//##transport/##next");
    IM_CHECK_EQ(selection().chunk, 6);
    ctx->ItemClick("//##transport/##previous");
    ctx->ItemClick("//##transport/##previous");
    IM_CHECK_EQ(selection().chunk, 4);
    ctx->ItemClick("//##transport/##first");
    IM_CHECK_EQ(selection().chunk, 0);
    ctx->ItemClick("//##transport/##last");
    IM_CHECK_EQ(selection().chunk, 15);
  });
  drive("keys", [](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiKey_Home);
    IM_CHECK_EQ(selection().chunk, 0);
    ctx->KeyPress(ImGuiKey_RightArrow);
    ctx->KeyPress(ImGuiKey_RightArrow);
    IM_CHECK_EQ(selection().chunk, 2);
    ctx->KeyPress(ImGuiMod_Shift | ImGuiKey_RightArrow);
    IM_CHECK_EQ(selection().chunk, 10);
    ctx->KeyPress(ImGuiKey_DownArrow);
    IM_CHECK_EQ(selection().layer, 16);
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_LeftBracket);
    IM_CHECK_EQ(selection().layer, 15);
    ctx->KeyPress(ImGuiKey_X);
    IM_CHECK(selection().shown == Slot::B);
    ctx->KeyPress(ImGuiKey_X);
  });
  drive("scrub", [](ImGuiTestContext* ctx) {
    ctx->ItemInputValue("//##transport/##chunk", 9);
    IM_CHECK_EQ(selection().chunk, 9);
  });
  drive("play", [](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiKey_Space);
    IM_CHECK(app->explorer().playing());
    ctx->SleepNoSkip(1.5F, 1.0F / 30);
    ctx->KeyPress(ImGuiKey_Space);
    IM_CHECK(!app->explorer().playing());
  });
  EXPECT_NE(selection().chunk, 9);
}

TEST_F(WindowTest, MethodAndBudgetChangeOnTheSpot) {
  open(kSynthetic);
  app->workspace().set_run(Slot::A, 0);
  drive("budget", [](ImGuiTestContext* ctx) {
    ctx->ItemClick("//##transport/###method A button");
    ctx->Yield(3);
    ctx->SetRef("//$FOCUSED");
    ctx->ItemInputValue("budget_tokens", 100);
    ctx->Yield(3);
    ctx->PopupCloseAll();
  });
  EXPECT_THAT(selection().choice(Slot::A).spec, HasSubstr("budget_tokens=100"));
  EXPECT_EQ(selection().choice(Slot::A).run, -1) << "a new budget is selected anew, in open loop";
  const auto map = app->workspace().kv_map(Slot::A);
  ASSERT_EQ(map.state, state::ResultState::Ready);
  EXPECT_EQ(map->map.kept.back(), 100);
  drive("method", [](ImGuiTestContext* ctx) {
    ctx->ItemClick("//##transport/###method A button");
    ctx->Yield(3);
    ctx->SetRef("//$FOCUSED");
    ctx->ItemClick("##method");
    ctx->Yield(3);
    ctx->SetRef("//$FOCUSED");
    ctx->ItemClick((selection::find_method("sliding_window")->title + "##sliding_window").c_str());
    ctx->Yield(3);
    ctx->PopupCloseAll();
  });
  EXPECT_THAT(selection().choice(Slot::A).spec, HasSubstr("sliding_window:budget_tokens=100"));
}

// Whoever knows a method's name finds it, sees its help and changes a parameter.
TEST_F(WindowTest, EveryMethodIsFoundByItsNameAndEdited) {
  using selection::ParamInfo;
  open(kSynthetic);
  for (const selection::MethodInfo& method : selection::catalogue()) {
    const bool needs_file =
        std::any_of(method.params.begin(), method.params.end(), [](const ParamInfo& param) {
          return param.type == selection::ParamType::Path && param.default_text.empty();
        });
    if (needs_file) continue;
    const bool budget = method.budget == selection::BudgetUse::Required;
    drive(method.id.c_str(), [&](ImGuiTestContext* ctx) {
      ctx->ItemClick("//##transport/###method A button");
      ctx->Yield(3);
      ctx->SetRef("//$FOCUSED");
      ctx->ItemClick("##method");
      ctx->Yield(3);
      ctx->SetRef("//$FOCUSED");
      ctx->ItemInputValue("##find", method.id.c_str());
      ctx->Yield(3);
      ctx->SetRef("//$FOCUSED");
      if (budget) ctx->ItemInputValue("budget_tokens", 99);
      if (method.basis) ctx->ItemClick("self");
      ctx->ItemOpen("About this method");
      IM_CHECK(ctx->ItemIsOpened("About this method"));
      ctx->Yield(3);
      ctx->PopupCloseAll();
    });
    const state::MethodChoice& choice = selection().choice(Slot::A);
    EXPECT_EQ(selection::MethodSpec::parse(choice.spec).id(), method.id);
    EXPECT_EQ(choice.run, -1) << method.id << " is selected anew";
    if (budget) {
      EXPECT_THAT(choice.spec, HasSubstr("budget_tokens=99"));
    }
    if (method.basis) {
      EXPECT_THAT(choice.spec, HasSubstr("basis=self"));
    }
  }
}

TEST_F(WindowTest, AClickInTheOverviewGoesThere) {
  open(kSynthetic);
  app->workspace().change(
      "", [](state::Selection& s) { s.metric = analysis::OverviewMetric::Entropy; });
  app->workspace().set_layer(0);
  settle();
  drive("overview", [](ImGuiTestContext* ctx) {
    const ImGuiTestItemInfo cells = ctx->ItemInfo("//###layer_head_overview/##cells");
    IM_CHECK(cells.ID != 0);
    // The last layer and the last of nine query heads are in the corner.
    ctx->MouseMoveToPos({cells.RectFull.Max.x - 3, cells.RectFull.Max.y - 3});
    ctx->MouseClick(0);
    ctx->Yield(3);
  });
  EXPECT_EQ(selection().layer, 29);
  EXPECT_EQ(selection().q_head, 8);
}

TEST_F(WindowTest, PaletteFindsActionsAndGotoGoes) {
  open(kSynthetic);
  drive("palette", [](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_K);
    ctx->Yield(3);
    ctx->KeyChars("view.query_rel");
    ctx->Yield(2);
    ctx->KeyPress(ImGuiKey_Enter);
    ctx->Yield(4);
  });
  EXPECT_TRUE(app->explorer().panel_visible("query_relevance"));
  drive("goto", [](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_G);
    ctx->Yield(3);
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_A);
    ctx->KeyChars("layer=7,q_head=4,chunk=3");
    ctx->KeyPress(ImGuiKey_Enter);
    ctx->Yield(3);
  });
  EXPECT_EQ(selection().layer, 7);
  EXPECT_EQ(selection().q_head, 4);
  EXPECT_EQ(selection().chunk, 3);
  drive("sheet", [](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiKey_F1);
    ctx->Yield(3);
    IM_CHECK(ImGui::IsPopupOpen(nullptr, ImGuiPopupFlags_AnyPopup));
    ctx->PopupCloseAll();
  });
}

TEST_F(WindowTest, SearchJumpsToAToken) {
  open(kSynthetic);
  app->explorer().show_view("token_strip");
  settle();
  drive("search", [](ImGuiTestContext* ctx) {
    ctx->ItemInputValue("//###token_strip/##search", "magic");
    ctx->Yield(3);
  });
  // "One of the special magic numbers" begins at token 701.
  EXPECT_EQ(selection().key_begin, 705);
}

TEST_F(WindowTest, ScaleAndThemeChange) {
  open(kSynthetic);
  const float before = app->gui().scale();
  drive("scale", [](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Equal);
    ctx->Yield(2);
  });
  EXPECT_GT(app->gui().scale(), before);
  EXPECT_TRUE(app->explorer().run_command("scale.reset"));
  const auto theme = app->gui().theme();
  EXPECT_TRUE(app->explorer().run_command("theme"));
  frames(2);
  EXPECT_NE(app->gui().theme(), theme);
  EXPECT_TRUE(app->explorer().run_command("theme"));
  settle();
}

// Random input must neither break nor freeze the window.
TEST_F(WindowTest, SurvivesRandomInput) {
  open(kSynthetic);
  std::mt19937 random(20260301);
  const auto upto = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  constexpr double kFreezeSeconds = 3.0;
  const ImGuiKey keys[] = {
      ImGuiKey_Space, ImGuiKey_LeftArrow, ImGuiKey_RightArrow, ImGuiKey_UpArrow, ImGuiKey_DownArrow,
      ImGuiKey_Home,  ImGuiKey_End,       ImGuiKey_X,          ImGuiKey_Escape,  ImGuiKey_F1,
      ImGuiKey_Tab,   ImGuiKey_PageUp,    ImGuiKey_Enter,      ImGuiKey_F5};
  for (int i = 0; i < 300; ++i) {
    ImGuiIO& io = ImGui::GetIO();
    const auto begin = Clock::now();
    switch (upto(4)) {
      case 0:
        io.AddMousePosEvent(static_cast<float>(upto(1560)), static_cast<float>(30 + upto(830)));
        break;
      case 1:
        io.AddMouseButtonEvent(upto(8) == 0 ? 1 : 0, true);
        app->frame();
        io.AddMouseButtonEvent(0, false);
        io.AddMouseButtonEvent(1, false);
        break;
      case 2:
        io.AddMouseWheelEvent(0, static_cast<float>(upto(5) - 2));
        break;
      default: {
        const ImGuiKey key = keys[upto(static_cast<int>(std::size(keys)))];
        io.AddKeyEvent(key, true);
        app->frame();
        io.AddKeyEvent(key, false);
      }
    }
    frames(1);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    ASSERT_LT(seconds, kFreezeSeconds) << "frozen at event " << i;
  }
  if (app->explorer().playing()) app->explorer().run_command("play");
  settle();
  EXPECT_FALSE(app->workspace().busy());
}

}  // namespace
}  // namespace kvloupe
