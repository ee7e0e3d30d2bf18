// See view_fixture.h.
#include "tests/gui/view_fixture.h"

#include "app/figure/figure_page.h"
#include "tests/gui/results_steps.h"

#include <algorithm>
#include <set>

namespace kvloupe::test {
namespace {

GuiTraceOptions small_options() {
  return {.num_tokens = 640,
          .decoded = 2,
          .needle_begin = 300,
          .runs = {"quoka:budget_tokens=64", "streaming_llm:budget_tokens=64",
                   "xattention:lowering=union,block_size=32", kUnknownMethod}};
}

}  // namespace

const std::string& ViewTest::trace_file() {
  static const std::string path = write_gui_trace("views.h5", small_options());
  return path;
}

const std::string& ViewTest::broken_trace_file() {
  static const std::string path = [] {
    GuiTraceOptions options = small_options();
    options.nan_key_at = 5;
    return write_gui_trace("views_broken.h5", options);
  }();
  return path;
}

void ViewTest::open(const std::string& path) {
  workspace.traces.open(path);
  open_results(workspace);
  ASSERT_TRUE(workspace.has_trace()) << path;
}

std::string ViewTest::fill(const state::ViewInfo& view) {
  std::string problem;
  for (const int run : {0, 2}) {
    workspace.cursor.set_run(state::Slot::A, run);
    problem = problem_of_view(workspace, view);
    if (problem.empty()) break;
  }
  return problem;
}

std::size_t ViewTest::draw(panels::Panel& panel, bool settled, bool figure) {
  panels::DrawContext context{workspace, renderer.gui().palette(), figure};
  for (int frame = 0; frame < 4; ++frame) {
    workspace.begin_frame();
    renderer.frame([&] { figure::figure_page_ui(context, panel); });
    if (settled) settle(workspace);
  }
  const figure::Image image = renderer.read();
  std::set<std::uint32_t> colors;
  for (std::size_t i = 0; i + 3 < image.rgba.size(); i += 4)
    colors.insert(image.rgba[i] | image.rgba[i + 1] << 8 | image.rgba[i + 2] << 16);
  return colors.size();
}

}  // namespace kvloupe::test
