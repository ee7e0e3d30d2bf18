// All views in a window of 1000 x 700: whatever has no room scrolls, and is not squeezed or cut.
#include "app/state/questions/how_it_works/query_geometry.h"
#include "tests/gui/results_steps.h"
#include "tests/gui/window_fixture.h"

#include <gtest/gtest.h>
#include <imgui_internal.h>
#include <implot/implot.h>
#include <implot/implot_internal.h>

namespace kvloupe {
namespace {

class WindowSmall : public test::WindowTest {
 protected:
  static void SetUpTestSuite() {
    shell::AppWindow::Options options;
    options.remember = false;
    options.settings.window_width = 1000;
    options.settings.window_height = 700;
    start(std::move(options));
  }
  // A long model: more layers than the narrow window has room for in one row.
  static const std::string& trace() {
    static const std::string path = test::write_gui_trace("small window.h5", {.decoded = 6});
    return path;
  }
  // What is drawn now; a band without numbers (the attention map's) is no plot of its own.
  static std::vector<const ImPlotPlot*> drawn_plots() {
    ImPool<ImPlotPlot>& plots = ImPlot::GetCurrentContext()->Plots;
    plots.Clear();
    frames(3);
    std::vector<const ImPlotPlot*> drawn;
    for (int i = 0; i < plots.GetBufSize(); ++i) {
      const ImPlotPlot* plot = plots.GetByIndex(i);
      const auto numbered = [&](ImAxis axis) {
        return (plot->Axes[axis].Flags & ImPlotAxisFlags_NoTickLabels) == 0;
      };
      if (numbered(ImAxis_X1) || numbered(ImAxis_Y1)) drawn.push_back(plot);
    }
    return drawn;
  }
  // The names of its axes are not longer than the plot.
  static void expect_whole_names(const std::string& view, const ImPlotPlot& plot) {
    for (int i = 0; i < ImAxis_COUNT; ++i) {
      const ImPlotAxis& axis = plot.Axes[i];
      if (!axis.Enabled || !axis.HasLabel()) continue;
      const char* name = plot.GetAxisLabel(axis);
      const bool up = i >= ImAxis_Y1;
      const float room = up ? plot.FrameRect.GetHeight() : plot.FrameRect.GetWidth();
      EXPECT_LE(ImGui::CalcTextSize(name).x, room) << view << ": " << name;
    }
  }
};

TEST_F(WindowSmall, NoPlotIsLowerThan120Pixels) {
  open_alone(trace());
  test::open_results(workspace());
  ASSERT_FLOAT_EQ(app->gui().scale(), 1);
  std::size_t checked = 0;
  for (const state::ViewInfo& view : state::views()) {
    explorer().panels().show(view.id);
    settle();
    ASSERT_TRUE(explorer().panels().visible(view.id)) << view.id;
    for (const ImPlotPlot* plot : drawn_plots()) {
      EXPECT_GE(plot->FrameRect.GetHeight(), 119.0F) << view.id << " " << plot->FrameRect.Min.y;
      expect_whole_names(view.id, *plot);
      ++checked;
    }
    save_picture(view.id + ".png");
  }
  EXPECT_GT(checked, 20U);
}

// More layers than the window has room for: cells stay 14 x 18 pixels, the grid scrolls, the wheel zooms.
TEST_F(WindowSmall, CellsOfManyLayersStayLarge) {
  test::GuiTraceOptions options = {.num_tokens = 256, .chunk_size = 64, .num_layers = 70};
  options.layers.clear();
  for (int layer = 0; layer < options.num_layers; ++layer) options.layers.push_back(layer);
  options.runs = {"quoka:budget_tokens=64"};
  open_alone(test::write_gui_trace("many layers.h5", options));
  explorer().panels().show("layer_head_overview");
  settle();
  ImVec2 before, after;
  drive("wheel", [&](ImGuiTestContext* ctx) {
    const std::string cells = in("layer_head_overview", "/**/##cells");
    const ImGuiTestItemInfo first = ctx->ItemInfo(cells.c_str());
    IM_CHECK(first.ID != 0);
    before = first.RectFull.GetSize();
    ctx->MouseMoveToPos(first.RectClipped.GetCenter());
    ctx->MouseWheelY(2);
    ctx->Yield(3);
    after = ctx->ItemInfo(cells.c_str()).RectFull.GetSize();
  });
  // Layers run across a wide view and down a tall one; there are three KV heads.
  const bool wide = before.x > before.y;
  EXPECT_GE(before.x / (wide ? 70 : 3), 13.9F);
  EXPECT_GE(before.y / (wide ? 3 : 70), 17.9F);
  EXPECT_GT(after.x, 1.1F * before.x);
  EXPECT_GT(after.y, 1.1F * before.y);
}

// Parts lie inside their panel, or it scrolls; a child that is cut has a scroll bar, too.
TEST_F(WindowSmall, WhatIsTallerThanItsPanelScrolls) {
  open_alone(trace());
  test::open_results(workspace());
  for (const state::ViewInfo& view : state::views()) {
    explorer().panels().show(view.id);
    settle();
    const std::string name = explorer().panels().window_of(view.id);
    const ImGuiWindow* panel = ImGui::FindWindowByName(name.c_str());
    ASSERT_NE(panel, nullptr);
    for (const ImGuiWindow* window : ImGui::GetCurrentContext()->Windows) {
      if (!window->Active || window->RootWindow != panel) continue;
      if (window->ContentSize.y <= window->InnerRect.GetHeight() + 1) continue;
      EXPECT_TRUE(window->ScrollbarY) << view.id << ": " << window->Name;
    }
  }
}

// The points of compared methods: a long table leaves them their room.
TEST_F(WindowSmall, ComparedMethodsHaveTheirPlotWhateverTheTable) {
  open_alone(trace());
  workspace().cursor.set_method(state::Slot::A, "quoka:budget_tokens=256");
  workspace().cursor.set_method(state::Slot::B, "sliding_window:budget_tokens=256");
  workspace().cursor.set_option("method_compare.cells", "own");
  explorer().panels().show("method_compare");
  for (const char* methods : {"", "catalogue"}) {
    workspace().cursor.set_option("method_compare.methods", methods);
    settle();
    ImGuiWindow* panel =
        ImGui::FindWindowByName(explorer().panels().window_of("method_compare").c_str());
    ImGui::SetScrollY(panel, panel->ScrollMax.y);
    const auto plots = drawn_plots();
    ASSERT_EQ(plots.size(), 1U) << methods;
    EXPECT_GE(plots.front()->FrameRect.GetHeight(), 119.0F) << methods;
    EXPECT_LE(plots.front()->FrameRect.Max.y, panel->InnerRect.Max.y) << methods;
  }
  for (const char* option : {"methods", "cells"})
    workspace().cursor.set_option(std::string("method_compare.") + option, "");
}

// What the trace holds, and its runs, which can be chosen there.
TEST_F(WindowSmall, FactsAndRunsOfATraceAreInView) {
  open_alone(trace());
  explorer().panels().show("trace_info");
  settle();
  const ImGuiWindow* panel =
      ImGui::FindWindowByName(explorer().panels().window_of("trace_info").c_str());
  ASSERT_NE(panel, nullptr);
  // Of each table, that it begins so high that several of its lines are seen.
  int tables = 0;
  ImPool<ImGuiTable>& all = ImGui::GetCurrentContext()->Tables;
  for (int i = 0; i < all.GetMapSize(); ++i) {
    const ImGuiTable* table = all.TryGetMapData(i);
    if (table == nullptr || table->OuterWindow != panel) continue;
    EXPECT_LT(table->OuterRect.Min.y + 6 * ImGui::GetTextLineHeightWithSpacing(),
              panel->InnerRect.Max.y);
    ++tables;
  }
  EXPECT_EQ(tables, 2);
}

// What a page of the tour asks for is at hand, however long its text is.
TEST_F(WindowSmall, ControlsOfATourAreInView) {
  shell::TourColumn& tour = explorer().tour();
  tour.open(state::first_tour());
  std::size_t controls = 0;
  for (std::size_t i = 0; i < tour.tour()->pages.size(); ++i) {
    const state::TourPage& page = tour.tour()->pages[i];
    if (page.knobs.empty()) continue;
    tour.go(i);
    settle();
    frames(8);
    settle();
    drive("controls", [&](ImGuiTestContext* ctx) {
      const ImGuiTestItemInfo item =
          ctx->ItemInfo(("//###tour/**/##" + page.knobs.front()).c_str());
      EXPECT_GT(item.RectFull.GetHeight(), 0) << page.title;
      EXPECT_FLOAT_EQ(item.RectClipped.GetHeight(), item.RectFull.GetHeight()) << page.title;
    });
    // Neither is any of it scrolled.
    const std::string name = "at hand " + std::to_string(i);
    for (const ImGuiWindow* window : ImGui::GetCurrentContext()->Windows)
      if (window->Active && std::string(window->Name).find(name) != std::string::npos) {
        EXPECT_FLOAT_EQ(window->ScrollMax.y, 0) << page.title;
        ++controls;
      }
  }
  EXPECT_GE(controls, 4U);
  tour.close();
}

// Queries and keys of A and B, each in a plot: low ones, beside each other.
TEST_F(WindowSmall, GeometryKeepsAllPointsInsideItsPlots) {
  open_alone(trace());
  workspace().cursor.set_option("query_geometry.show", "both");
  workspace().cursor.set_option("query_geometry.fit", "both");
  explorer().panels().show("query_geometry");
  settle();
  const auto points = workspace().ask(
      state::GeometryQuestion{place(), workspace().method(), state::geometry_form(workspace())});
  ASSERT_TRUE(points) << points.error;
  // With the dots at its edge.
  const auto holds = [dot = 0.7F * ImGui::GetFontSize()](const ImPlotPlot& plot,
                                                         const state::GeometryQuestion::Box& box) {
    const auto edge = [&](ImAxis axis, int number, double side) {
      return plot.Axes[axis].PlotToPixels(box.center(number) + side * box.length(number) / 2);
    };
    const ImRect inside = plot.PlotRect;
    return edge(ImAxis_X1, 0, -1) - dot >= inside.Min.x &&
           edge(ImAxis_X1, 0, 1) + dot <= inside.Max.x &&
           edge(ImAxis_Y1, 1, 1) - dot >= inside.Min.y &&
           edge(ImAxis_Y1, 1, -1) + dot <= inside.Max.y;
  };
  const auto plots = drawn_plots();
  EXPECT_EQ(plots.size(), 4U);
  for (const ImPlotPlot* plot : plots)
    EXPECT_TRUE(holds(*plot, points->query_box) || holds(*plot, points->key_box))
        << plot->Axes[ImAxis_Y1].Range.Min << " to " << plot->Axes[ImAxis_Y1].Range.Max;
  for (const char* option : {"show", "fit"})
    workspace().cursor.set_option(std::string("query_geometry.") + option, "");
}

}  // namespace
}  // namespace kvloupe
