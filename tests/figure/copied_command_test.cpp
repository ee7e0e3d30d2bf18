// The command that the window copies, run by a shell, draws the picture that the window's own state
// draws: to the pixel, on the device `sim`, with options, theme, size and scale.
#include "app/figure/export.h"
#include "app/figure/headless.h"
#include "app/shell/windows/exporter.h"
#include "app/state/view_list.h"
#include "tests/cli/run_program.h"
#include "tests/figure/picture_difference.h"
#include "tests/gui/gui_trace.h"
#include "tests/gui/workspace_steps.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>
#include <string>

namespace kvloupe {
namespace {

using state::Slot;

struct Shown {
  const char* view;
  Slot slot = Slot::A;
  const char* option = nullptr;  // with its value
  const char* value = nullptr;
  friend void PrintTo(const Shown& shown, std::ostream* out) { *out << shown.view; }
};

class CopiedCommand : public ::testing::TestWithParam<Shown> {
 protected:
  CopiedCommand() : exporter(workspace, files, messages) {
    workspace.traces.open(test::write_gui_trace("it's shown.h5", {.num_tokens = 640}));
    test::settle(workspace);
    workspace.cursor.go_to(state::parse_goto("layer=2,q_head=4,chunk=3,key=240-255"));
    workspace.cursor.set_method(Slot::A, "quoka:budget_tokens=48");
    workspace.cursor.set_method(Slot::B, "keydiff:budget_tokens=64");
    workspace.cursor.show(GetParam().slot);
    workspace.cursor.set_device("sim");
    workspace.cursor.set_picture(
        {.theme = state::ThemeKind::Dark, .width = 640, .height = 480, .scale = 1.5});
    if (GetParam().option != nullptr)
      workspace.cursor.set_option(std::string(GetParam().view) + "." + GetParam().option,
                                  GetParam().value);
  }
  const state::ViewInfo& view() const { return *state::find_view(GetParam().view); }
  figure::Image drawn_here() {
    figure::ExportRequest request;
    request.what = state::describe(workspace, view());
    return figure::draw_view(workspace, request);
  }

  state::Workspace workspace;
  shell::FileDialog files;
  shell::Messages messages;
  shell::Exporter exporter;
};

TEST_P(CopiedCommand, DrawsWhatTheWindowShows) {
  const std::string copied = exporter.command_of(view());
  ASSERT_EQ(copied.substr(0, 7), "kvloupe");
  std::filesystem::remove("figure.png");
  const test::ProgramResult result = test::run_script("\"$kvloupe\"" + copied.substr(7));
  ASSERT_EQ(result.exit_code, 0) << copied << "\n" << result.standard_error;
  const figure::Image command = figure::testing::read_png("figure.png");
  const figure::Image window = drawn_here();
  EXPECT_EQ(command.width, 960);
  EXPECT_EQ(command.height, 720);
  EXPECT_TRUE(command.rgba == window.rgba) << copied;
  // The picture depends on what is compared: another theme is another picture.
  workspace.cursor.set_picture(
      {.theme = state::ThemeKind::Light, .width = 640, .height = 480, .scale = 1.5});
  EXPECT_FALSE(drawn_here().rgba == window.rgba);
}

INSTANTIATE_TEST_SUITE_P(Views, CopiedCommand,
                         ::testing::Values(Shown{"kv_map"}, Shown{"kv_map", Slot::B},
                                           Shown{"selected_vs_true", Slot::B, "filter", "misses"},
                                           Shown{"layer_head_overview", Slot::A, "metric",
                                                 "entropy"},
                                           Shown{"miss_inspector"}),
                         [](const auto& shown) {
                           return std::string(shown.param.view) +
                                  state::letter_of(shown.param.slot);
                         });

}  // namespace
}  // namespace kvloupe
