#include "app/bench/start_rows.h"

#include "app/figure/headless.h"
#include "app/shell/explorer.h"
#include "app/state/tour.h"
#include "core/base/error.h"
#include "core/base/results.h"
#include "core/base/seconds_since.h"
#include "core/measure/timing.h"

#include <fmt/format.h>

#include <epoxy/gl.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

namespace kvloupe::bench {
namespace {

constexpr int kWarmUp = 2;
constexpr int kStarts = 11;

void refuse(const std::string& why) {
  throw input_error("a start cannot be timed", why, "run kvloupe --version in a terminal");
}

// Runs this program with one argument, from its start until its first word on standard output.
double ms_until_output(const char* argument) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) refuse(std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  const std::array<const char*, 3> argv{"kvloupe", argument, nullptr};
  const auto start = std::chrono::steady_clock::now();
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr,
                                   const_cast<char* const*>(argv.data()), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  char word = 0;
  const bool spoke = failed == 0 && ::read(ends[0], &word, 1) == 1;
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  ::close(ends[0]);
  if (failed != 0) refuse(std::strerror(failed));
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!spoke) refuse(fmt::format("kvloupe {} ended without a word", argument));
  return taken.count();
}

Row timed(Row row, const char* argument, const WorkContext& context) {
  row.unit = "s";
  row.goal = Goal::AtMost;
  std::vector<double> samples;
  try {
    for (int i = 0; i < kWarmUp + kStarts; ++i) {
      context.cancel.throw_if_cancelled();
      const double ms = ms_until_output(argument);
      if (i >= kWarmUp) samples.push_back(ms);
    }
  } catch (const Error& error) {
    // A machine that cannot draw still has its other rows.
    if (error.kind() != ErrorKind::Input) throw;
    row.reason = error.what();
    return row;
  }
  row.time = measure::stats_of(samples);
  row.value = row.time.median_ms / 1e3;
  return row;
}

}  // namespace

std::vector<Row> start_rows(const WorkContext& context) {
  return {timed({.id = "start_version", .meaning = "kvloupe --version", .threshold = 0.05},
                "--version", context),
          timed({.id = "start_window",
                 .meaning = "the window's first frame, drawn without a display",
                 .threshold = 0.3},
                kFirstFrame, context),
          timed({.id = "start_tour",
                 .meaning = "kvloupe tour until the picture of its first page is drawn",
                 .threshold = 2},
                kFirstPage, context)};
}

void draw_first_frame() {
  figure::HeadlessRenderer renderer(1600, 900, 1.0F);
  state::Workspace workspace;
  shell::Explorer explorer(workspace, renderer.gui(), {});
  explorer.before_frame();
  renderer.frame([&] { explorer.frame(); });
  glFinish();
  results::add_text("drawn\n");
  results::deliver();
}

void draw_first_page() {
  constexpr double kMostSeconds = 60;
  const auto start = std::chrono::steady_clock::now();
  figure::HeadlessRenderer renderer(1600, 900, 1.0F);
  state::Workspace workspace;
  shell::Explorer explorer(workspace, renderer.gui(), {});
  explorer.tour().open(state::first_tour());
  const auto draw = [&] {
    explorer.before_frame();
    renderer.frame([&] { explorer.frame(); });
    glFinish();
  };
  // A view asks for what it needs in the frame in which it comes to the front; with all answers there the
  // frame after that has its picture.
  for (int idle = 0; idle < 3;) {
    draw();
    const bool shown = workspace.has_trace() &&
                       explorer.panels().visible(explorer.tour().tour()->pages.front().at.view);
    idle = shown && !workspace.answers.busy() ? idle + 1 : 0;
    if (seconds_since(start) > kMostSeconds)
      throw input_error("the tour's first page does not appear",
                        fmt::format("{} s have passed", kMostSeconds), "run kvloupe tour");
  }
  results::add_text("drawn\n");
  results::deliver();
}

}  // namespace kvloupe::bench
