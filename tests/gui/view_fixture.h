// Draws views without a display, over real traces that are written once for all tests of the
// program.
#pragma once

#include "app/figure/headless.h"
#include "app/panels/panel.h"
#include "app/state/view_list.h"
#include "tests/gui/gui_trace.h"
#include "tests/gui/workspace_steps.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace kvloupe::test {

class ViewTest : public ::testing::Test {
 protected:
  ViewTest() : renderer(640, 420, 1.0F) {}

  // 640 tokens in five chunks and two decode steps, four layers; quoka, streaming_llm, xattention
  // and a method that nobody knows were recorded.
  static const std::string& trace_file();
  // The same with a key that is no number in the first chunk.
  static const std::string& broken_trace_file();

  void open(const std::string& path = trace_file());
  // The first of the recorded runs of which the view has something to show becomes A. Returns what
  // is wrong with the last one where none will do.
  std::string fill(const state::ViewInfo& view);
  // Some frames of the view, as a window shows it or as a figure. Nothing guards them: what a panel
  // throws fails the test. Returns how many colours the picture has; a view that draws nothing has
  // one.
  std::size_t draw(panels::Panel& panel, bool settled, bool figure = true);
  // Calls it for both themes.
  template <typename Look>
  void in_both_themes(Look look) {
    for (const auto theme : {widgets::ThemeKind::Dark, widgets::ThemeKind::Light}) {
      renderer.gui().apply_style(theme, 1.0F);
      look();
    }
  }

  state::Workspace workspace;
  figure::HeadlessRenderer renderer;
};

}  // namespace kvloupe::test
