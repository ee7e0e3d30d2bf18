// The real window under Xvfb, driven by the Dear ImGui Test Engine. One window serves all cases of a
// program.
#pragma once

#include "app/shell/frame/app_window.h"
#include "tests/gui/gui_trace.h"

#include <gtest/gtest.h>
#include <imgui_test_engine/imgui_te_context.h>
#include <imgui_test_engine/imgui_te_engine.h>

#include <functional>
#include <memory>
#include <string>

struct ImPlotPlot;

namespace kvloupe::test {

class WindowTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite();
  // The window, for suites that set it up otherwise.
  static void start(shell::AppWindow::Options options);
  // What the window looked like when something went wrong, beside the test's other output.
  void TearDown() override;

  static void frames(int count);
  // Until nothing is computed, drawing all the while.
  static void settle();
  // Closes what is open and opens this file.
  static void open_alone(const std::string& path);
  static void open(const std::string& path);
  static void close_all();
  // Runs one script of the test engine to its end. A name may come again, with another script.
  static void drive(const char* name, std::function<void(ImGuiTestContext*)> script);
  // What the test engine calls an item of a view's window in the workspace shown:
  // "//###kv_map@kept/**/x".
  static std::string in(const std::string& view, const std::string& item = "");
  // The largest plot of a view, and where a point of it is on the screen; after forget_plots() one that is drawn
  // now.
  static void forget_plots();
  static const ImPlotPlot* largest_plot(const char* view);  // null: it has none
  static ImVec2 in_plot(const char* view, double x, double y);
  // Clicks what opens a popup; the names that follow are those in it.
  static void open_popup(ImGuiTestContext* ctx, const std::string& item);
  // To a share of its length, 0 to 1, held on the way; the button is let go at its end.
  static void drag_slider(ImGuiTestContext* ctx, const std::string& item, float share);
  // By the menu of the view's tab, as a file of this name beside the traces or of this path.
  static void export_view(const std::string& view, const std::string& format,
                          const std::string& file);
  // Gives the name in the file dialog that is open.
  static void save_as(ImGuiTestContext* ctx, const std::string& file);
  // Notes the place that is shown, with this text.
  static void note(const std::string& text);
  static void save_picture(const std::string& file);

  static state::Workspace& workspace() { return app->workspace(); }
  static shell::Explorer& explorer() { return app->explorer(); }
  static const state::Selection& selection() { return app->workspace().selection(); }
  static const state::Place& place() { return selection().place; }

  static std::unique_ptr<shell::AppWindow> app;
  static ImGuiTestEngine* engine;
};

}  // namespace kvloupe::test
