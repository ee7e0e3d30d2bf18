// See frame_bench.h. The frames are those of the headless renderer: with llvmpipe they cost what a
// window's do, less the copy to the screen, and no display server takes a core from them.
#include "app/shell/frame_bench.h"

#include "app/figure/headless.h"
#include "app/shell/explorer.h"
#include "core/base/error.h"

#include <epoxy/gl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace kvloupe::shell {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kMostSecondsToOpen = 120;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto index = static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5);
  return values[index];
}

}  // namespace

FrameBenchReport measure_frames(const std::string& trace, const FrameBenchOptions& options) {
  FrameBenchReport report;
  figure::HeadlessRenderer renderer(options.width, options.height, options.scale);
  report.renderer = reinterpret_cast<const char*>(glGetString(GL_RENDERER));
  state::Workspace workspace(options.memory_limit);
  Explorer explorer(workspace, renderer.gui(), Settings{});
  const auto draw = [&] {
    explorer.before_frame();
    renderer.frame([&] { explorer.frame(); });
    glFinish();
  };
  for (int i = 0; i < 3; ++i) draw();  // the empty window is up

  const Clock::time_point start = Clock::now();
  workspace.open(trace);
  for (;;) {
    draw();
    const state::TraceTab* tab = workspace.active();
    if (tab == nullptr || tab->state == state::ResultState::Error)
      throw input_error(fmt::format("{} cannot be shown", trace),
                        tab != nullptr ? tab->error : "it was not opened", "see kvloupe validate");
    // Asking is what a panel does: the three are on screen when all are answered and a frame has
    // passed.
    if (workspace.ready() != nullptr && explorer.panel_visible("kv_map") &&
        explorer.panel_visible("token_strip") && workspace.kv_map(workspace.selection().shown) &&
        workspace.attention_rows()) {
      explorer.show_view("attention_map");
      draw();
      break;
    }
    if (seconds_since(start) > kMostSecondsToOpen)
      throw input_error("the trace did not appear", fmt::format("{} s passed", kMostSecondsToOpen),
                        "try a smaller one");
  }
  report.open_s = seconds_since(start);

  // Whole maps refine in the background; the scrub is measured once they are there.
  const Clock::time_point settled = Clock::now();
  while (workspace.busy() && seconds_since(settled) < kMostSecondsToOpen) draw();
  const int num_chunks = static_cast<int>(workspace.info().chunks.size());
  int direction = -1;
  for (int i = 0; i < options.frames; ++i) {
    if (workspace.selection().chunk == 0) direction = 1;
    if (workspace.selection().chunk == num_chunks - 1) direction = -1;
    const Clock::time_point begin = Clock::now();
    workspace.step_chunk(direction);
    draw();
    report.frame_ms.push_back(seconds_since(begin) * 1e3);
  }
  report.median_ms = quantile(report.frame_ms, 0.5);
  report.p99_ms = quantile(report.frame_ms, 0.99);
  report.max_ms = quantile(report.frame_ms, 1.0);
  return report;
}

}  // namespace kvloupe::shell
