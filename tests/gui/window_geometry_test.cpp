// query_geometry in the window: what a lasso takes is watched, in two and in three components; the
// controls are the options of the view.
#include "app/state/questions/how_it_works/query_geometry.h"
#include "tests/gui/window_fixture.h"

#include <gmock/gmock.h>
#include <imgui_internal.h>
#include <implot/implot.h>
#include <implot/implot_internal.h>
#include <implot3d/implot3d.h>
#include <implot3d/implot3d_internal.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace kvloupe {
namespace {

using state::GeometryQuestion;
using test::WindowTest;

const std::string& trace() {
  static const std::string path = test::write_gui_trace("geometry.h5");
  return path;
}

class WindowGeometryTest : public WindowTest {
 protected:
  static void look() {
    open_alone(trace());
    for (const char* option : {"fit", "color", "span", "dimensions", "rope"}) set(option, "");
    workspace().cursor.go_to(state::parse_goto("layer=2,q_head=4,chunk=15"));
    workspace().cursor.set_keys(-1, -1);
    explorer().run_command("view.query_geometry");
    settle();
  }
  static void set(const std::string& option, const std::string& value) {
    workspace().cursor.set_option("query_geometry." + option, value);
  }
  static state::Result<GeometryQuestion> shown() {
    return workspace().ask(
        GeometryQuestion{place(), workspace().method(), state::geometry_form(workspace())});
  }
  static const ImGuiWindow* window() {
    return ImGui::FindWindowByName(explorer().panels().window_of("query_geometry").c_str());
  }
  static const ImPlotPlot* flat_plot() {
    ImPool<ImPlotPlot>& plots = ImPlot::GetCurrentContext()->Plots;
    for (int i = 0; i < plots.GetBufSize(); ++i)
      if (window()->Rect().Contains(plots.GetByIndex(i)->PlotRect)) return plots.GetByIndex(i);
    return nullptr;
  }
  // Queries of all chunks of the head, in the plane: its points and its plot, which must be there.
  static state::Result<GeometryQuestion> look_at_the_head() {
    look();
    set("fit", "queries");
    set("span", "head");
    settle();
    EXPECT_EQ(shown().state, state::ResultState::Ready) << shown().error;
    EXPECT_NE(flat_plot(), nullptr);
    return shown();
  }
  static ImPlot3DPlot* solid_plot() {
    ImPool<ImPlot3DPlot>& plots = ImPlot3D::GetCurrentContext()->Plots;
    for (int i = 0; i < plots.GetBufSize(); ++i)
      if (window()->Rect().Contains(plots.GetByIndex(i)->PlotRect)) return plots.GetByIndex(i);
    return nullptr;
  }
  // Around these pixels, with the left button.
  static void circle(ImGuiTestContext* ctx, const std::vector<ImVec2>& around) {
    ImVec2 low = around.front(), high = low;
    for (const ImVec2& at : around) {
      low = {std::min(low.x, at.x), std::min(low.y, at.y)};
      high = {std::max(high.x, at.x), std::max(high.y, at.y)};
    }
    ctx->MouseMoveToPos({low.x - 3, low.y - 3});
    ctx->MouseDown(0);
    for (const ImVec2 corner : {ImVec2(high.x + 3, low.y - 3), ImVec2(high.x + 3, high.y + 3),
                                ImVec2(low.x - 3, high.y + 3)})
      ctx->MouseMoveToPos(corner);
    ctx->MouseUp(0);
    ctx->Yield(3);
  }
};

TEST_F(WindowGeometryTest, KeysCircledAreWatchedAndOneStepBackUndoesIt) {
  look();
  set("fit", "keys");
  settle();
  const auto keys = shown();
  ASSERT_EQ(keys.state, state::ResultState::Ready) << keys.error;
  const ImPlotPlot* plot = flat_plot();
  ASSERT_NE(plot, nullptr);
  // The third of the keys that lies furthest to the right, cut from the others by a vertical line.
  std::vector<float> across;
  for (const auto& key : keys->points->keys) across.push_back(key[0]);
  std::sort(across.begin(), across.end());
  const float cut = across[across.size() * 2 / 3];
  // The left edge of the line. What lies within two pixels of it may be on either side.
  const float left = plot->Axes[ImAxis_X1].PlotToPixels(cut) + 3.5F;
  std::vector<ImVec2> pixels;
  std::vector<std::int32_t> inside, outside;
  for (std::size_t i = 0; i < keys->points->every_key.size(); ++i) {
    const auto& key = keys->points->every_key[i];
    const ImVec2& at = pixels.emplace_back(plot->Axes[ImAxis_X1].PlotToPixels(key[0]),
                                           plot->Axes[ImAxis_Y1].PlotToPixels(key[1]));
    if (at.x > left + 2) inside.push_back(static_cast<std::int32_t>(i));
    if (at.x < left - 2) outside.push_back(static_cast<std::int32_t>(i));
  }
  ASSERT_GT(inside.size(), 30U);
  ASSERT_GT(outside.size(), 30U);
  drive("lasso of keys", [&](ImGuiTestContext* ctx) {
    ctx->ItemCheck(in("query_geometry", "/**/Lasso").c_str());
    std::vector<ImVec2> around;
    for (const ImVec2& at : pixels)
      if (at.x > left) around.push_back({std::max(at.x, left + 3), at.y});
    circle(ctx, around);
  });
  const auto is_watched = [](std::int32_t key) { return place().keys.contains(key); };
  EXPECT_TRUE(std::ranges::all_of(inside, is_watched)) << place().keys.text();
  EXPECT_TRUE(std::ranges::none_of(outside, is_watched)) << place().keys.text();
  EXPECT_GT(place().keys.ranges().size(), 10U) << "all between the first and the last";
  EXPECT_EQ(place().query, -1) << "no query was there";
  settle();
  save_picture("geometry_lasso.png");
  workspace().cursor.back();
  EXPECT_EQ(place().keys.first(), -1);
}

TEST_F(WindowGeometryTest, TheTextLineAndTheMenuKnowTheQueryUnderTheMouse) {
  const auto head = look_at_the_head();
  const ImPlotPlot* plot = flat_plot();
  ASSERT_TRUE(head && plot != nullptr);
  const auto& query = head->points->queries[3];
  const ImVec2 at(plot->Axes[ImAxis_X1].PlotToPixels(query[0]),
                  plot->Axes[ImAxis_Y1].PlotToPixels(query[1]));
  std::int32_t pointed = -1;
  drive("go to the query", [&](ImGuiTestContext* ctx) {
    ctx->MouseMoveToPos(at);
    ctx->Yield(3);
    IM_CHECK(workspace().pointer.last().has_value());
    pointed = workspace().pointer.last()->query;
    IM_CHECK_EQ(explorer().text_line().token(), pointed);
    ctx->MouseClick(ImGuiMouseButton_Right);
    ctx->Yield(3);
    ctx->SetRef("//$FOCUSED");
    ctx->ItemClick("###go");
    ctx->Yield(3);
  });
  ASSERT_GE(pointed, 0);
  EXPECT_EQ(place().query, pointed);
  EXPECT_EQ(place().chunk, place().info().chunk_of_token(pointed));
  EXPECT_FALSE(place().has_keys());
}

TEST_F(WindowGeometryTest, OfQueriesCircledTheMiddleOneIsSelectedInItsChunk) {
  const auto head = look_at_the_head();
  const ImPlotPlot* plot = flat_plot();
  ASSERT_TRUE(head && plot != nullptr);
  // One query of another chunk, alone: it is the middle of those circled.
  const auto pixel = [&](std::size_t i) {
    const auto& query = head->points->queries[i];
    return ImVec2(plot->Axes[ImAxis_X1].PlotToPixels(query[0]),
                  plot->Axes[ImAxis_Y1].PlotToPixels(query[1]));
  };
  std::size_t lonely = 0;
  double widest = 0;
  for (std::size_t i = 0; i < head->points->queries.size(); ++i) {
    if (head->row_of(place(), i)) continue;
    double nearest = 1e9;
    for (std::size_t j = 0; j < head->points->queries.size(); ++j)
      if (j != i)
        nearest = std::min<double>(nearest, std::max(std::abs(pixel(i).x - pixel(j).x),
                                                     std::abs(pixel(i).y - pixel(j).y)));
    if (nearest > widest) {
      widest = nearest;
      lonely = i;
    }
  }
  ASSERT_GT(widest, 4);
  const std::int32_t position = head->points->query_positions[lonely];
  drive("lasso of a query", [&](ImGuiTestContext* ctx) {
    ctx->ItemUncheck(in("query_geometry", "/**/Lasso").c_str());
    ctx->KeyDown(ImGuiMod_Shift);  // in place of the box
    circle(ctx, {pixel(lonely)});
    ctx->KeyUp(ImGuiMod_Shift);
  });
  EXPECT_EQ(place().query, position);
  EXPECT_EQ(place().chunk, place().info().chunk_of_token(position));
  EXPECT_NE(place().chunk, 15);
}

TEST_F(WindowGeometryTest, QueriesCircledTogetherAreSelectedTogetherUntilCleared) {
  look_at_the_head();
  set("span", "chunk");
  set("fit", "queries");
  settle();
  const auto head = shown();
  const ImPlotPlot* plot = flat_plot();
  ASSERT_TRUE(head && plot != nullptr);
  // Those to the right of the middle of the plot.
  const float middle = plot->PlotRect.GetCenter().x;
  std::vector<ImVec2> around;
  std::vector<std::int32_t> inside;
  for (std::size_t i = 0; i < head->points->queries.size(); ++i) {
    const auto& query = head->points->queries[i];
    const ImVec2 at(plot->Axes[ImAxis_X1].PlotToPixels(query[0]),
                    plot->Axes[ImAxis_Y1].PlotToPixels(query[1]));
    if (at.x > middle + 2) inside.push_back(head->points->query_positions[i]);
    if (at.x > middle) around.push_back({std::max(at.x, middle + 3), at.y});
  }
  ASSERT_GT(inside.size(), 3U);
  drive("lasso of queries", [&](ImGuiTestContext* ctx) {
    ctx->KeyDown(ImGuiMod_Shift);
    circle(ctx, around);
    ctx->KeyUp(ImGuiMod_Shift);
  });
  EXPECT_TRUE(std::ranges::all_of(inside, [](std::int32_t query) {
    return place().queries.contains(query);
  })) << place().queries.text();
  EXPECT_TRUE(place().queries.contains(place().query));
  EXPECT_GE(place().looked_at().size(), inside.size());
  settle();
  save_picture("geometry_queries.png");
  // One around nothing changes nothing, and the view says so.
  const state::Place taken = place();
  const ImVec2 corner = plot->PlotRect.Min;
  drive("lasso of nothing", [&](ImGuiTestContext* ctx) {
    ctx->KeyDown(ImGuiMod_Shift);
    circle(ctx, {{corner.x + 3, corner.y + 3}, {corner.x + 9, corner.y + 9}});
    ctx->KeyUp(ImGuiMod_Shift);
  });
  EXPECT_EQ(place().queries.text(), taken.queries.text());
  EXPECT_EQ(place().query, taken.query);
  EXPECT_THAT(explorer().messages().history().back(), testing::StartsWith("The lasso held no dot"));
  drive("clear",
        [&](ImGuiTestContext* ctx) { ctx->ItemClick(in("query_geometry", "/**/Clear").c_str()); });
  EXPECT_TRUE(place().queries.empty());
  workspace().cursor.back();
  EXPECT_FALSE(place().queries.empty());
}

TEST_F(WindowGeometryTest, ThreeComponentsTurnAndKeysAreTakenThere) {
  look();
  set("dimensions", "3");
  set("fit", "keys");
  settle();
  const auto keys = shown();
  ASSERT_EQ(keys.state, state::ResultState::Ready) << keys.error;
  ImPlot3DPlot* plot = solid_plot();
  ASSERT_NE(plot, nullptr);
  const ImPlot3DQuat before = plot->Rotation;
  const ImVec2 middle = plot->PlotRect.GetCenter();
  drive("turn and take all", [&](ImGuiTestContext* ctx) {
    ctx->ItemUncheck(in("query_geometry", "/**/Lasso").c_str());
    ctx->MouseMoveToPos(middle);
    ctx->MouseDragWithDelta({60, 20}, 1);
    ctx->Yield(2);
    const ImPlot3DQuat turned = plot->Rotation;
    IM_CHECK(turned.x != before.x || turned.y != before.y || turned.z != before.z);
    ctx->ItemCheck(in("query_geometry", "/**/Lasso").c_str());
    circle(ctx, {{plot->PlotRect.Min.x + 6, plot->PlotRect.Min.y + 6},
                 {plot->PlotRect.Max.x - 6, plot->PlotRect.Max.y - 6}});
    IM_CHECK(turned.x == plot->Rotation.x && turned.w == plot->Rotation.w);
    ctx->ItemUncheck(in("query_geometry", "/**/Lasso").c_str());
  });
  EXPECT_EQ(place().keys.first(), 0);
  EXPECT_EQ(place().keys.bound(), std::ssize(keys->points->every_key));
  save_picture("geometry_solid.png");
}

TEST_F(WindowGeometryTest, TheControlsAreTheOptionsOfTheView) {
  look();
  drive("choose", [](ImGuiTestContext* ctx) {
    const auto choose = [&](const char* control, const char* choice) {
      ctx->ItemClick(in("query_geometry", std::string("/") + control).c_str());
      ctx->Yield(3);
      ctx->ItemClick((std::string("//##Combo_00/") + choice).c_str());
      ctx->Yield(2);
    };
    choose("##fit", "side by side");
    choose("##color", "position");
    choose("##span", "all chunks");
    choose("##dimensions", "3");
    choose("##rope", "before");
  });
  const state::GeometryForm form = state::geometry_form(workspace());
  EXPECT_EQ(form.fit, state::GeometryForm::Fit::Both);
  EXPECT_EQ(form.color, state::GeometryForm::Color::Position);
  EXPECT_EQ(form.dimensions, 3);
  EXPECT_TRUE(form.all_chunks && form.before_rotary);
  settle();
  EXPECT_EQ(shown().state, state::ResultState::Ready);
  workspace().cursor.back();
  EXPECT_FALSE(state::geometry_form(workspace()).before_rotary);
}

}  // namespace
}  // namespace kvloupe
