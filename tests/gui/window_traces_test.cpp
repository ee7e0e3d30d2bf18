// Two traces beside each other by mouse and keyboard, and the views that show A, B or both: one axis, one
// cursor, and a flip that moves nothing.
#include "app/state/other_trace.h"
#include "app/state/questions/kept/selected_vs_true.h"
#include "app/state/questions/why_lost/miss_inspector.h"
#include "app/state/shown_methods.h"
#include "tests/gui/window_fixture.h"

#include <gmock/gmock.h>
#include <imgui_internal.h>
#include <implot/implot.h>
#include <implot/implot_internal.h>
#include <implot3d/implot3d.h>
#include <implot3d/implot3d_internal.h>

#include <algorithm>
#include <filesystem>
#include <vector>

namespace kvloupe {
namespace {

using state::Show;
using state::Slot;

constexpr std::int32_t kAt = 600, kMore = 64;  // where B's prompt says more, and by how many tokens

class WindowTraces : public test::WindowTest {
 protected:
  static test::GuiTraceOptions of_text() {
    return {.runs = {"quoka:budget_tokens=256", "streaming_llm:budget_tokens=256"}, .text_seed = 5};
  }
  static const std::string& first() {
    static const std::string path = test::write_gui_trace("traces_a.h5", of_text());
    return path;
  }
  static const std::string& second() {
    static const std::string path = [] {
      test::GuiTraceOptions options = of_text();
      options.num_tokens += kMore;
      options.needle_begin = 768 + kMore;
      options.inserted_at = kAt;
      options.inserted = kMore;
      options.seed = 2;
      return test::write_gui_trace("traces_b.h5", options);
    }();
    return path;
  }
  // Both, the first in front.
  static void open_both() {
    close_all();
    open(second());
    open(first());
    look();
  }
  static void look() {
    workspace().cursor.change("", [](state::Selection& s) { s.options.clear(); });
    workspace().cursor.go_to(state::parse_goto("layer=2,q_head=4,chunk=15"));
    workspace().cursor.set_run(Slot::A, 0);
    workspace().cursor.set_run(Slot::B, 1);
    workspace().cursor.show(Slot::A);
    settle();
  }
  static void bring_up(const std::string& view) {
    explorer().panels().show(view);
    settle();
    ASSERT_TRUE(explorer().panels().visible(view)) << view;
  }
  static const ImGuiWindow* window(const std::string& view) {
    return ImGui::FindWindowByName(explorer().panels().window_of(view).c_str());
  }
  // Drawn now, the largest first. Plots of earlier forms stay in ImPlot's pool.
  static std::vector<const ImPlotPlot*> plots(const std::string& view) {
    std::vector<const ImPlotPlot*> found;
    ImPool<ImPlotPlot>& pool = ImPlot::GetCurrentContext()->Plots;
    for (int i = 0; i < pool.GetBufSize(); ++i) pool.GetByIndex(i)->PlotRect = {};
    frames(2);
    for (int i = 0; i < pool.GetBufSize(); ++i)
      if (const ImPlotPlot* plot = pool.GetByIndex(i);
          plot->PlotRect.GetArea() > 0 && window(view)->Rect().Contains(plot->PlotRect))
        found.push_back(plot);
    std::stable_sort(found.begin(), found.end(), [](const ImPlotPlot* x, const ImPlotPlot* y) {
      return x->PlotRect.GetArea() > y->PlotRect.GetArea();
    });
    return found;
  }
  static void press(const std::string& view, const std::string& segment) {
    drive("press", [&](ImGuiTestContext* ctx) {
      ctx->ItemClick(in(view, "/show/" + segment).c_str());
      ctx->Yield(3);
    });
    settle();
  }
  static Show shown(const std::string& view) { return state::show_of(workspace(), view); }
  static state::OtherPlace other() {
    return state::other_place(workspace(), workspace().method(), state::Alike::Heads);
  }
};

TEST_F(WindowTraces, TheControlAppearsWithASecondTraceAndShowsBoth) {
  open_alone(first());
  look();
  bring_up("kv_map");
  drive("no segment yet", [](ImGuiTestContext* ctx) {
    IM_CHECK(!ctx->ItemExists(in("kv_map", "/show/two traces").c_str()));
  });
  open_both();
  bring_up("kv_map");
  press("kv_map", "two traces");
  EXPECT_EQ(shown("kv_map"), Show::Traces);
  ASSERT_TRUE(bool(other())) << other().why;
  EXPECT_EQ(other().place.trace->path, second());
  save_picture("traces_kv_map.png");
  for (const char* view : {"layer_head_overview", "attention_map", "token_strip"}) {
    bring_up(view);
    press(view, "two traces");
    EXPECT_EQ(shown(view), Show::Traces) << view;
    save_picture(std::string("traces_") + view + ".png");
  }
  // The trace that is closed is drawn no longer, and the view says what to do.
  workspace().traces.open(second());
  explorer().run_command("close");
  settle();
  EXPECT_EQ(other().why,
            "Open a second trace to see it here: File, Open, or drop it on the window.");
  bring_up("kv_map");
  save_picture("traces_closed.png");
}

TEST_F(WindowTraces, ZoomInEitherMapShowsTheSameTokensInBoth) {
  open_both();
  // Where both maps have room.
  workspace().cursor.set_perspective("kept");
  settle();
  drive("room", [](ImGuiTestContext* ctx) { ctx->WindowClose(in("token_strip").c_str()); });
  bring_up("kv_map");
  press("kv_map", "two traces");
  auto maps = plots("kv_map");
  ASSERT_GE(maps.size(), 2U);
  std::sort(maps.begin(), maps.begin() + 2, [](const ImPlotPlot* a, const ImPlotPlot* b) {
    return a->PlotRect.Min.y < b->PlotRect.Min.y;
  });
  const ImPlotPlot *upper = maps[0], *lower = maps[1];
  EXPECT_DOUBLE_EQ(upper->Axes[ImAxis_X1].Range.Max, 2048);
  EXPECT_DOUBLE_EQ(lower->Axes[ImAxis_X1].Range.Max, 2048 + kMore);
  const auto zoom = [](const ImPlotPlot* map, double share) {
    drive("zoom", [&](ImGuiTestContext* ctx) {
      const ImRect at = map->PlotRect;
      ctx->MouseMoveToPos({at.Min.x + static_cast<float>(share) * at.GetWidth(), at.GetCenter().y});
      for (int i = 0; i < 12; ++i) {
        ctx->MouseWheelY(1);
        ctx->Yield(2);
      }
    });
  };
  // Behind the inserted words: 64 later.
  zoom(upper, 0.8);
  const ImPlotRange a = upper->Axes[ImAxis_X1].Range, b = lower->Axes[ImAxis_X1].Range;
  ASSERT_GT(a.Min, kAt + 1);
  ASSERT_LT(a.Size(), 1500);
  EXPECT_NEAR(b.Min, a.Min + kMore, 0.01);
  EXPECT_NEAR(b.Max, a.Max + kMore, 0.01);
  // A flip moves neither.
  drive("flip", [](ImGuiTestContext* ctx) { ctx->KeyPress(ImGuiKey_X); });
  settle();
  EXPECT_EQ(selection().shown, Slot::B);
  EXPECT_DOUBLE_EQ(upper->Axes[ImAxis_X1].Range.Min, a.Min);
  EXPECT_DOUBLE_EQ(lower->Axes[ImAxis_X1].Range.Min, b.Min);
  // The lower one leads as well.
  zoom(lower, 0.5);
  const ImPlotRange closer = lower->Axes[ImAxis_X1].Range;
  EXPECT_LT(closer.Size(), b.Size());
  EXPECT_NEAR(upper->Axes[ImAxis_X1].Range.Min, closer.Min - kMore, 0.01);
  EXPECT_NEAR(upper->Axes[ImAxis_X1].Range.Max, closer.Max - kMore, 0.01);
  // A click in the lower map chooses the same word here.
  const std::int32_t there = static_cast<std::int32_t>(closer.Min + closer.Size() / 2);
  drive("click", [&](ImGuiTestContext* ctx) {
    ctx->MouseMoveToPos({lower->Axes[ImAxis_X1].PlotToPixels(there + 0.5),
                         lower->Axes[ImAxis_Y1].PlotToPixels(12.5)});
    ctx->MouseClick(0);
    ctx->Yield(3);
  });
  EXPECT_EQ(place().keys.first(), there - kMore);
  EXPECT_EQ(place().trace->path, first());
  save_picture("traces_zoomed.png");
  // The value under the mouse is the other trace's, and its key is none of this one.
  std::string copied;
  drive("menu", [&](ImGuiTestContext* ctx) {
    ctx->MouseMoveToPos({lower->Axes[ImAxis_X1].PlotToPixels(there + 0.5),
                         lower->Axes[ImAxis_Y1].PlotToPixels(11.5)});
    ctx->Yield(2);
    ctx->MouseClick(ImGuiMouseButton_Right);
    ctx->Yield(3);
    const auto& popups = ImGui::GetCurrentContext()->OpenPopupStack;
    IM_CHECK(!popups.empty());
    const std::string popup = "//" + std::string(popups.back().Window->Name);
    for (const char* item : {"/###watch", "/###go", "/Why was it lost?"})
      IM_CHECK(!ctx->ItemExists((popup + item).c_str()));
    ctx->ItemClick((popup + "/Copy the value").c_str());
    ctx->Yield(3);
    copied = ImGui::GetClipboardText();
  });
  EXPECT_THAT(copied, ::testing::HasSubstr(std::filesystem::path(second()).filename().string()));
  explorer().run_command("layout.reset");
  settle();
}

TEST_F(WindowTraces, WhichOtherTraceIsChosenInTheList) {
  open_both();
  test::GuiTraceOptions options = of_text();
  options.seed = 9;
  static const std::string third = test::write_gui_trace("traces_c.h5", options);
  open(third);
  workspace().traces.open(first());
  settle();
  bring_up("kv_map");
  press("kv_map", "two traces");
  EXPECT_EQ(state::other_trace(workspace())->path, second());
  const std::string entry = "traces_c.h5##" + std::to_string(workspace().traces.find(third)->id);
  drive("choose", [&](ImGuiTestContext* ctx) {
    open_popup(ctx, in("kv_map", "/##other trace"));
    ctx->ItemClick(entry.c_str());
    ctx->Yield(3);
  });
  settle();
  EXPECT_EQ(state::other_trace(workspace())->path, third);
  EXPECT_TRUE(other().note.empty()) << other().note;  // the same prompt
  workspace().cursor.back();
  EXPECT_EQ(state::other_trace(workspace())->path, second());
}

TEST_F(WindowTraces, SelectedVersusTrueFlipsAndShowsBothOnOneAxis) {
  open_alone(first());
  look();
  bring_up("selected_vs_true");
  for (int twice = 0; twice < 2; ++twice) {  // so that both have been seen
    drive("flip", [](ImGuiTestContext* ctx) { ctx->KeyPress(ImGuiKey_X); });
    settle();
  }
  ASSERT_FALSE(plots("selected_vs_true").empty());
  const ImPlotPlot* bars = plots("selected_vs_true").front();
  drive("zoom", [&](ImGuiTestContext* ctx) {
    ctx->MouseMoveToPos(bars->PlotRect.GetCenter());
    ctx->MouseWheelY(3);
    ctx->Yield(3);
  });
  const ImPlotRange zoomed = bars->Axes[ImAxis_X1].Range;
  const ImRect at = bars->PlotRect;
  drive("flip", [](ImGuiTestContext* ctx) { ctx->KeyPress(ImGuiKey_X); });
  settle();
  EXPECT_EQ(selection().shown, Slot::B);
  EXPECT_DOUBLE_EQ(bars->Axes[ImAxis_X1].Range.Min, zoomed.Min);
  EXPECT_DOUBLE_EQ(bars->Axes[ImAxis_X1].Range.Max, zoomed.Max);
  EXPECT_EQ(bars->PlotRect.Min.y, at.Min.y);
  press("selected_vs_true", "both");
  EXPECT_EQ(shown("selected_vs_true"), Show::Both);
  EXPECT_DOUBLE_EQ(bars->Axes[ImAxis_X1].Range.Min, zoomed.Min) << "the place keeps its part";
  const auto both = workspace().ask(state::selected_by_both_question(workspace()));
  EXPECT_EQ(both.state, state::ResultState::Ready) << both.error;
  save_picture("both_selected.png");
  press("selected_vs_true", "A");
  EXPECT_EQ(shown("selected_vs_true"), Show::One);
  EXPECT_EQ(selection().shown, Slot::A);
}

TEST_F(WindowTraces, TheInspectorShowsOneOnRequest) {
  open_alone(first());
  look();
  workspace().cursor.set_keys(1200, 1201);
  bring_up("miss_inspector");
  EXPECT_EQ(shown("miss_inspector"), Show::Both);
  EXPECT_EQ(state::inspected_slots(workspace()).size(), 2U);
  press("miss_inspector", "B");
  EXPECT_EQ(state::inspected_slots(workspace()), (std::vector{Slot::B}));
  save_picture("one_inspector.png");
  drive("flip", [](ImGuiTestContext* ctx) { ctx->KeyPress(ImGuiKey_X); });
  settle();
  EXPECT_EQ(state::inspected_slots(workspace()), (std::vector{Slot::A}));
  press("miss_inspector", "both");
  EXPECT_EQ(state::inspected_slots(workspace()).size(), 2U);
}

TEST_F(WindowTraces, GeometryOfBothMovesTogether) {
  open_alone(first());
  look();
  bring_up("query_geometry");
  press("query_geometry", "both");
  EXPECT_EQ(shown("query_geometry"), Show::Both);
  auto scatters = plots("query_geometry");
  ASSERT_GE(scatters.size(), 2U);
  const ImPlotPlot *a = scatters[0], *b = scatters[1];
  drive("zoom", [&](ImGuiTestContext* ctx) {
    ctx->MouseMoveToPos(a->PlotRect.GetCenter());
    ctx->MouseWheelY(4);
    ctx->Yield(4);
  });
  EXPECT_NEAR(a->Axes[ImAxis_X1].Range.Min, b->Axes[ImAxis_X1].Range.Min, 1e-6);
  EXPECT_NEAR(a->Axes[ImAxis_Y1].Range.Max, b->Axes[ImAxis_Y1].Range.Max, 1e-6);
  save_picture("both_geometry.png");
  // Three components turn together.
  workspace().cursor.set_option("query_geometry.dimensions", "3");
  settle();
  std::vector<ImPlot3DPlot*> solid;
  ImPool<ImPlot3DPlot>& pool = ImPlot3D::GetCurrentContext()->Plots;
  for (int i = 0; i < pool.GetBufSize(); ++i)
    if (window("query_geometry")->Rect().Contains(pool.GetByIndex(i)->PlotRect))
      solid.push_back(pool.GetByIndex(i));
  ASSERT_EQ(solid.size(), 2U);
  const ImPlot3DQuat before = solid[1]->Rotation;
  drive("turn", [&](ImGuiTestContext* ctx) {
    ctx->MouseMoveToPos(solid[0]->PlotRect.GetCenter());
    ctx->MouseDragWithDelta({60, 20}, 1);
    ctx->Yield(4);
  });
  EXPECT_NE(solid[1]->Rotation.x, before.x);
  EXPECT_EQ(solid[0]->Rotation.x, solid[1]->Rotation.x);
  EXPECT_EQ(solid[0]->Rotation.w, solid[1]->Rotation.w);
  save_picture("both_geometry_solid.png");
}

}  // namespace
}  // namespace kvloupe
