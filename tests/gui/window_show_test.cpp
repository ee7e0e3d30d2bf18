// A, B, both and their difference by mouse and keyboard: the control chooses, X flips, and nothing else
// moves.
#include "app/state/questions/kept/kv_difference.h"
#include "app/state/shown_methods.h"
#include "tests/gui/window_fixture.h"

#include <gmock/gmock.h>
#include <imgui_internal.h>
#include <implot/implot.h>
#include <implot/implot_internal.h>

namespace kvloupe {
namespace {

using state::Show;
using state::Slot;

class WindowShow : public test::WindowTest {
 protected:
  void SetUp() override {
    static const std::string path = test::write_gui_trace("show.h5");
    open_alone(path);
    ImPlot::BustPlotCache();                 // what another test drew last still has its place
    workspace().cursor.set_run(Slot::A, 0);  // quoka
    workspace().cursor.set_run(Slot::B, 1);  // streaming_llm
    workspace().cursor.show(Slot::A);
    explorer().panels().show("kv_map");
    settle();
    ASSERT_TRUE(explorer().panels().visible("kv_map"));
  }
  static const ImPlotPlot* map() { return largest_plot("kv_map"); }
  static void press(const std::string& segment) {
    drive("press", [&](ImGuiTestContext* ctx) {
      ctx->ItemClick(in("kv_map", "/show/" + segment).c_str());
      ctx->Yield(3);
    });
    settle();
  }
  static Show shown() { return state::show_of(workspace(), "kv_map"); }
};

TEST_F(WindowShow, AFlipKeepsZoomAndPlace) {
  for (const ImGuiKey key : {ImGuiKey_X, ImGuiKey_X}) {  // so that both have been seen
    drive("flip", [key](ImGuiTestContext* ctx) { ctx->KeyPress(key); });
    settle();
  }
  ASSERT_NE(map(), nullptr);
  drive("zoom", [](ImGuiTestContext* ctx) {
    ctx->MouseMoveToPos(map()->PlotRect.GetCenter());
    ctx->MouseWheelY(4);
    ctx->Yield(3);
  });
  const ImPlotRange zoomed = map()->Axes[ImAxis_X1].Range;
  const ImRect at = map()->PlotRect;
  ASSERT_LT(zoomed.Size(), 2000);
  drive("flip", [](ImGuiTestContext* ctx) { ctx->KeyPress(ImGuiKey_X); });
  settle();
  EXPECT_EQ(selection().shown, Slot::B);
  EXPECT_DOUBLE_EQ(map()->Axes[ImAxis_X1].Range.Min, zoomed.Min);
  EXPECT_DOUBLE_EQ(map()->Axes[ImAxis_X1].Range.Max, zoomed.Max);
  EXPECT_EQ(map()->PlotRect.Min.y, at.Min.y);
  EXPECT_EQ(map()->PlotRect.Max.x, at.Max.x);
  // Both, the difference and back: the same part.
  for (const char* segment : {"both", "difference", "A"}) {
    press(segment);
    ASSERT_NE(map(), nullptr) << segment;
    EXPECT_DOUBLE_EQ(map()->Axes[ImAxis_X1].Range.Min, zoomed.Min) << segment;
    EXPECT_DOUBLE_EQ(map()->Axes[ImAxis_X1].Range.Max, zoomed.Max) << segment;
  }
}

TEST_F(WindowShow, ADoubleClickShowsAll) {
  ASSERT_NE(map(), nullptr);
  const ImPlotRange all = map()->Axes[ImAxis_X1].Range;
  drive("zoom", [](ImGuiTestContext* ctx) {
    ctx->MouseMoveToPos(map()->PlotRect.GetCenter());
    ctx->MouseWheelY(4);
    ctx->Yield(3);
  });
  ASSERT_LT(map()->Axes[ImAxis_X1].Range.Size(), all.Size());
  drive("double click", [](ImGuiTestContext* ctx) {
    ctx->MouseMoveToPos(map()->PlotRect.GetCenter());
    ctx->MouseDoubleClick(0);
    ctx->Yield(3);
  });
  EXPECT_DOUBLE_EQ(map()->Axes[ImAxis_X1].Range.Min, all.Min);
  EXPECT_DOUBLE_EQ(map()->Axes[ImAxis_X1].Range.Max, all.Max);
}

TEST_F(WindowShow, TheControlChoosesAndIsUndone) {
  press("difference");
  EXPECT_EQ(shown(), Show::Difference);
  const auto difference = workspace().ask(state::kv_difference_question(workspace()));
  ASSERT_EQ(difference.state, state::ResultState::Ready) << difference.error;
  EXPECT_GT(difference->map.count(15, analysis::KeptBy::AOnly), 0);
  press("B");
  EXPECT_EQ(shown(), Show::One);
  EXPECT_EQ(selection().shown, Slot::B);
  press("up to six");
  EXPECT_EQ(shown(), Show::Several);
  workspace().cursor.back();
  workspace().cursor.back();
  EXPECT_EQ(shown(), Show::Difference);
  EXPECT_EQ(selection().shown, Slot::A);
}

// Six grids are small, and each is seen whole, with the cell of the place.
TEST_F(WindowShow, SixOverviewsFitWithoutScrolling) {
  test::GuiTraceOptions options;
  options.num_tokens = 512;
  options.chunk_size = 64;
  options.num_layers = 30;
  options.layers.clear();
  for (int layer = 0; layer < options.num_layers; ++layer) options.layers.push_back(layer);
  options.runs = {"quoka:budget_tokens=64", "streaming_llm:budget_tokens=64",
                  "keydiff:budget_tokens=64", "random:budget_tokens=64"};
  open_alone(test::write_gui_trace("thirty layers.h5", options));
  workspace().cursor.set_perspective("where");
  explorer().run_command("layout.reset");
  workspace().cursor.set_method(Slot::A, "quest:budget_tokens=64");
  workspace().cursor.set_method(Slot::A, "aqua:basis=self");
  workspace().cursor.set_method(Slot::A, "quoka:budget_tokens=64");
  workspace().cursor.set_layer(29);
  workspace().cursor.set_option("layer_head_overview.show", "several");
  settle();
  save_picture("six overviews.png");
  int grids = 0;
  const std::string overview = explorer().panels().window_of("layer_head_overview");
  const ImGuiWindow* panel = ImGui::FindWindowByName(overview.c_str());
  ASSERT_NE(panel, nullptr);
  EXPECT_EQ(panel->ScrollMax.y, 0);
  for (const ImGuiWindow* window : ImGui::GetCurrentContext()->Windows) {
    if (!window->Active || window->ParentWindow != panel ||
        std::string(window->Name).find("grid ") == std::string::npos)
      continue;
    ++grids;
    EXPECT_EQ(window->ScrollMax.y, 0) << window->Name;
    EXPECT_TRUE(panel->InnerRect.Contains(window->Rect())) << window->Name;
  }
  EXPECT_EQ(grids, 6);
}

TEST_F(WindowShow, AgainstTruthIsAskedByTheBox) {
  press("difference");
  drive("truth", [](ImGuiTestContext* ctx) {
    ctx->ItemClick(in("kv_map", "/against truth").c_str());
    ctx->Yield(3);
  });
  settle();
  EXPECT_EQ(workspace().option("kv_map", "truth"), "on");
  const auto question = state::kv_difference_question(workspace());
  const auto keys =
      workspace().ask(state::TrueKeysQuestion{question.place, question.a, question.b});
  ASSERT_EQ(keys.state, state::ResultState::Ready) << keys.error;
  EXPECT_FALSE((*keys)[15].empty());
}

}  // namespace
}  // namespace kvloupe
