// See frame_bench.h. The frames are those of the headless renderer: with llvmpipe they cost what a
// window's do, less the copy to the screen, and no display server takes a core from them.
#include "app/shell/frame/frame_bench.h"

#include "app/figure/headless.h"
#include "app/shell/explorer.h"
#include "app/shell/frame/pace.h"
#include "app/state/questions/kept/attention_map.h"
#include "app/state/questions/kept/kv_map.h"
#include "core/base/error.h"
#include "core/base/quantile.h"
#include "core/base/seconds_since.h"

#include <epoxy/gl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <fstream>
#include <mutex>
#include <utility>

namespace kvloupe::shell {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kMostSecondsToOpen = 120;

// Of this thread, in ms.
double cpu_time() {
  timespec now = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

std::uint64_t anonymous_memory() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;)
    if (word == "RssAnon:") {
      std::uint64_t kilobytes = 0;
      file >> kilobytes;
      return kilobytes * 1024;
    }
  return 0;
}

double quantile_of(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return quantile(values, share);
}

// What is not on screen yet, and why; empty: all is.
std::string missing_of(state::Workspace& workspace, const PanelHost& panels) {
  const state::Place place = workspace.place();
  if (place.empty()) return "no place was shown";
  for (const char* view : {"kv_map", "token_strip"})
    if (!panels.visible(view)) return fmt::format("{} was not in front", view);
  const auto why = [](const char* view, const auto& result) {
    if (result) return std::string();
    const std::string problem = state::problem_of(result);
    return fmt::format("{} had no answer{}{}", view, problem.empty() ? "" : ": ", problem);
  };
  const std::string map =
      why("kv_map", workspace.ask(state::KvMapQuestion{place, workspace.method()}));
  if (!map.empty()) return map;
  // A sketch of a large chunk's rows is drawn until they are there.
  const state::AttentionStripQuestion rows{place}, sketch{place, true};
  return why("attention_map", workspace.ask(rows.is_large() ? sketch : rows));
}

// What holds it up.
std::string running_of(const state::Answers& answers) {
  std::string text;
  for (const JobStatus& job : answers.jobs().status())
    if (job.running) text += fmt::format("; {} {}", job.title, job.stage);
  return text;
}

}  // namespace

FrameBenchReport measure_frames(const std::string& trace, const FrameBenchOptions& options) {
  FrameBenchReport report;
  figure::HeadlessRenderer renderer(options.width, options.height, options.scale);
  report.renderer = reinterpret_cast<const char*>(glGetString(GL_RENDERER));
  // As the window: jobs step back behind its frames, and while it only waits for them it paces those.
  std::mutex mutex;
  std::condition_variable woken;
  bool has_news = false;
  state::Workspace workspace(options.memory);
  workspace.answers.jobs().set_wake([&] {
    const std::lock_guard lock(mutex);
    has_news = true;
    woken.notify_one();
  });
  const auto wait = [&] {
    std::unique_lock lock(mutex);
    woken.wait_for(lock, std::chrono::duration<double>(kAnimationSeconds),
                   [&] { return std::exchange(has_news, false); });
  };
  Settings settings;
  settings.restore_places = false;
  Explorer explorer(workspace, renderer.gui(), settings);
  const auto draw = [&] {
    explorer.before_frame();
    renderer.frame([&] { explorer.frame(); });
    glFinish();
  };
  for (int i = 0; i < 3; ++i) draw();  // the empty window is up
  explorer.panels().show("kv_map");

  const Clock::time_point start = Clock::now();
  std::string said = "it was not opened";
  workspace.traces.on_message = [&said](const std::string& text, bool) { said = text; };
  workspace.traces.open(trace);
  for (;;) {
    draw();
    const state::TraceTab* tab = workspace.traces.active();
    if (tab == nullptr || tab->state == state::ResultState::Error)
      throw input_error(fmt::format("{} cannot be shown", trace),
                        tab != nullptr ? tab->error : said, "see kvloupe validate");
    // Asking is what a panel does: the three are on screen when all are answered and a frame has
    // passed.
    const std::string missing = missing_of(workspace, explorer.panels());
    if (missing.empty()) {
      explorer.panels().show("attention_map");
      draw();
      break;
    }
    if (seconds_since(start) > kMostSecondsToOpen)
      throw input_error("the trace did not appear",
                        fmt::format("after {} s {}{}", kMostSecondsToOpen, missing,
                                    running_of(workspace.answers)),
                        "try a smaller one");
    wait();
  }
  report.open_s = seconds_since(start);

  // Whole maps refine in the background; the scrub is measured once they are there.
  const Clock::time_point settled = Clock::now();
  while (workspace.answers.busy() && seconds_since(settled) < kMostSecondsToOpen) {
    wait();
    draw();
  }
  const int num_chunks = static_cast<int>(workspace.place().info().chunks.size());
  int direction = -1;
  std::vector<double> cpu_ms;
  for (int i = 0; i < options.frames; ++i) {
    if (workspace.place().chunk == 0) direction = 1;
    if (workspace.place().chunk == num_chunks - 1) direction = -1;
    const Clock::time_point begin = Clock::now();
    const double cpu_before = cpu_time();
    workspace.cursor.step_chunk(direction);
    draw();
    report.frame_ms.push_back(seconds_since(begin) * 1e3);
    cpu_ms.push_back(cpu_time() - cpu_before);
    report.most_memory = std::max(report.most_memory, anonymous_memory());
  }
  if (report.frame_ms.empty()) return report;
  report.median_ms = quantile_of(report.frame_ms, 0.5);
  report.p99_ms = quantile_of(report.frame_ms, 0.99);
  report.max_ms = quantile_of(report.frame_ms, 1);
  report.median_cpu_ms = quantile_of(cpu_ms, 0.5);
  report.p99_cpu_ms = quantile_of(cpu_ms, 0.99);
  return report;
}

}  // namespace kvloupe::shell
