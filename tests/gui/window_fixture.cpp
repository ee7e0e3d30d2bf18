#include "tests/gui/window_fixture.h"

#include "app/figure/headless.h"
#include "core/base/paths.h"
#include "core/base/whole_file.h"
#include "tests/gui/slowness.h"

#include <imgui_internal.h>
#include <implot/implot.h>
#include <implot/implot_internal.h>

#include <chrono>
#include <filesystem>

namespace kvloupe::test {

using Clock = std::chrono::steady_clock;

std::unique_ptr<shell::AppWindow> WindowTest::app;
ImGuiTestEngine* WindowTest::engine = nullptr;

void WindowTest::SetUpTestSuite() {
  shell::AppWindow::Options options;
  options.remember = false;
  options.settings.window_width = 1560;
  options.settings.window_height = 860;
  start(std::move(options));
}

void WindowTest::start(shell::AppWindow::Options options) {
  paths::set_config_dir(std::filesystem::current_path() / "config");
  options.vsync = false;
  options.settings.desktop_dialogs = false;  // this machine may have one
  app = std::make_unique<shell::AppWindow>(std::move(options));
  app->shown_of = 10;
  engine = ImGuiTestEngine_CreateContext();
  ImGuiTestEngineIO& io = ImGuiTestEngine_GetIO(engine);
  io.ConfigRunSpeed = ImGuiTestRunSpeed_Fast;
  // As long as drive() waits.
  io.ConfigWatchdogWarning = io.ConfigWatchdogKillTest = 60 * kSlowness;
  io.ConfigVerboseLevel = ImGuiTestVerboseLevel_Warning;
  io.ConfigVerboseLevelOnError = ImGuiTestVerboseLevel_Info;
  io.ConfigLogToTTY = true;
  io.ConfigSavedSettings = false;
  ImGuiTestEngine_Start(engine, app->gui().imgui());
}

void WindowTest::TearDownTestSuite() {
  ImGuiTestEngine_Stop(engine);
  app.reset();
  ImGuiTestEngine_DestroyContext(engine);
}

void WindowTest::frames(int count) {
  for (int i = 0; i < count; ++i) {
    app->frame();
    ImGuiTestEngine_PostSwap(engine);
  }
}

void WindowTest::settle() {
  const auto end = Clock::now() + std::chrono::seconds(60 * kSlowness);
  frames(4);
  while (workspace().answers.busy() && Clock::now() < end) frames(1);
  frames(2);
}

void WindowTest::open(const std::string& path) {
  workspace().traces.open(path);
  settle();
  ASSERT_TRUE(workspace().has_trace()) << path;
}

void WindowTest::close_all() {
  while (workspace().traces.active() != nullptr) explorer().run_command("close");
  settle();
}

void WindowTest::open_alone(const std::string& path) {
  close_all();
  open(path);
}

void WindowTest::drive(const char* name, std::function<void(ImGuiTestContext*)> script) {
  ImGuiTest* test = ImGuiTestEngine_FindTestByName(engine, "window", name);
  if (test == nullptr)
    test = ImGuiTestEngine_RegisterTest(engine, "window", name, __FILE__, __LINE__);
  test->TestFunc = std::move(script);
  ImGuiTestEngine_QueueTest(engine, test);
  const auto end = Clock::now() + std::chrono::seconds(60 * kSlowness);
  while (!ImGuiTestEngine_IsTestQueueEmpty(engine) && Clock::now() < end) frames(1);
  EXPECT_EQ(test->Output.Status, ImGuiTestStatus_Success) << name;
  settle();
}

std::string WindowTest::in(const std::string& view, const std::string& item) {
  return "//" + explorer().panels().window_of(view) + item;
}

void WindowTest::forget_plots() {
  ImPlot::BustPlotCache();
  frames(3);
}

const ImPlotPlot* WindowTest::largest_plot(const char* view) {
  ImPool<ImPlotPlot>& plots = ImPlot::GetCurrentContext()->Plots;
  const ImGuiWindow* window = ImGui::FindWindowByName(explorer().panels().window_of(view).c_str());
  const ImPlotPlot* largest = nullptr;
  for (int i = 0; i < plots.GetBufSize(); ++i) {
    const ImPlotPlot* plot = plots.GetByIndex(i);
    if (window == nullptr || !window->Rect().Contains(plot->PlotRect)) continue;
    if (largest == nullptr || plot->PlotRect.GetArea() > largest->PlotRect.GetArea())
      largest = plot;
  }
  return largest;
}

ImVec2 WindowTest::in_plot(const char* view, double x, double y) {
  const ImPlotPlot* largest = largest_plot(view);
  if (largest == nullptr) return {0, 0};
  return {largest->Axes[ImAxis_X1].PlotToPixels(x), largest->Axes[ImAxis_Y1].PlotToPixels(y)};
}

void WindowTest::open_popup(ImGuiTestContext* ctx, const std::string& item) {
  ctx->ItemClick(item.c_str());
  ctx->Yield(3);
  ctx->SetRef("//$FOCUSED");
}

void WindowTest::drag_slider(ImGuiTestContext* ctx, const std::string& item, float share) {
  ctx->MouseMove(item.c_str());
  const ImRect rect = ctx->ItemInfo(item.c_str()).RectFull;
  ctx->MouseDown(0);
  for (const float part : {0.5F, 1.0F}) {
    const float x = rect.GetCenter().x + part * (share - 0.5F) * rect.GetWidth();
    ctx->MouseMoveToPos({x, rect.GetCenter().y});
    ctx->Yield(4);
  }
  ctx->MouseUp(0);
  ctx->Yield(2);
}

void WindowTest::export_view(const std::string& view, const std::string& format,
                             const std::string& file) {
  drive("export", [&](ImGuiTestContext* ctx) {
    ImGuiWindow* window = ctx->GetWindowByRef(in(view).c_str());
    IM_CHECK(window != nullptr);
    ctx->MouseMoveToPos(window->DC.DockTabItemRect.GetCenter());
    ctx->MouseClick(1);
    ctx->Yield(3);
    ctx->ItemClick(("//$FOCUSED/Export as " + format + "\u2026").c_str());
    save_as(ctx, file);
  });
}

void WindowTest::save_as(ImGuiTestContext* ctx, const std::string& file) {
  ctx->Yield(4);
  ctx->SetRef("//$FOCUSED");
  ctx->ItemInput("##name");
  ctx->KeyCharsReplace(file.c_str());
  ctx->ItemClick("Save");
  ctx->Yield(4);
}

void WindowTest::note(const std::string& text) {
  drive("note", [&](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_D);
    ctx->Yield(4);
    ctx->KeyChars(text.c_str());
    ctx->KeyPress(ImGuiKey_Escape);
    ctx->Yield(2);
  });
}

void WindowTest::save_picture(const std::string& file) {
  app->after_render = [&] { write_whole_file(file, figure::png_bytes(app->read_pixels())); };
  frames(1);
  app->after_render = nullptr;
}

void WindowTest::TearDown() {
  if (HasFailure())
    save_picture(std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) +
                 ".png");
}

}  // namespace kvloupe::test
