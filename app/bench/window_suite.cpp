// The suite `window`: its rows frame, open_s and memory, then those of the start.
#include "app/bench/bench.h"
#include "app/bench/scratch_folder.h"
#include "app/bench/start_rows.h"
#include "app/shell/frame/frame_bench.h"
#include "capture/engine.h"
#include "capture/run/capture.h"
#include "core/base/error.h"
#include "core/base/large_blocks.h"
#include "core/base/memory_account.h"
#include "core/measure/timing.h"

#include <fmt/format.h>

#include <malloc.h>

#include <filesystem>
#include <memory>
#include <utility>

namespace kvloupe::bench {
namespace {

// The trace is as many times as large as what the window may keep of it.
constexpr std::uint64_t kTimesTheLimit = 10;

// A trace of the default model's whole context, with one method's selections.
void capture_8k_trace(const std::filesystem::path& output, const WorkContext& context) {
  capture::CaptureOptions options;
  options.model = "smollm2";
  options.task = "niah:length=8192,depth=0.5,seed=1";
  options.methods = {selection::MethodSpec::parse("quoka:budget_tokens=1024")};
  options.output = output;
  capture_engine().run_capture(options, {}, context);
  context.cancel.throw_if_cancelled();
}

std::vector<Row> rows_of(const std::filesystem::path& trace, const WorkContext& context) {
  Row frame{.id = "frame",
            .meaning = "99th percentile of frame times while scrubbing",
            .unit = "ms",
            .threshold = 33,
            .goal = Goal::AtMost};
  Row open{.id = "open_s",
           .meaning = "window up until kv_map, token strip and attention rows are drawn",
           .unit = "s",
           .threshold = 1,
           .goal = Goal::AtMost};
  Row memory{
      .id = "memory",
      .meaning = fmt::format("anonymous memory above a limit of a {}th of the trace, scrubbing",
                             kTimesTheLimit),
      .unit = "MB",
      .threshold = 300,
      .goal = Goal::AtMost};
  try {
    const shell::FrameBenchReport report = shell::measure_frames(trace.string(), {});
    frame.value = report.p99_ms;
    frame.time = measure::stats_of(report.frame_ms);
    frame.numbers = {{"median_cpu_ms", report.median_cpu_ms}, {"p99_cpu_ms", report.p99_cpu_ms}};
    frame.details = {{"max", fmt::format("{:.1f} ms", report.max_ms)},
                     {"renderer", report.renderer}};
    open.value = report.open_s;
    context.cancel.throw_if_cancelled();
    ::malloc_trim(0);  // what the first run freed is not the second one's
    const std::uint64_t limit = std::filesystem::file_size(trace) / kTimesTheLimit;
    shell::FrameBenchOptions bounded;
    bounded.memory = std::make_shared<MemoryAccount>(limit);
    const auto most =
        static_cast<double>(shell::measure_frames(trace.string(), bounded).most_memory);
    memory.value = (most - static_cast<double>(limit)) / 1e6;
    memory.numbers = {{"limit_mb", static_cast<double>(limit) / 1e6}};
  } catch (const Error& error) {
    // A machine that cannot draw still has its other rows.
    if (error.kind() != ErrorKind::Input) throw;
    for (Row* row : {&frame, &open, &memory})
      if (!row->value) row->reason = error.what();
  }
  return {frame, open, memory};
}

}  // namespace

std::vector<Row> window_rows(const std::string& trace, const WorkContext& context) {
  give_back_large_blocks();  // as the window does
  if (!trace.empty()) return rows_of(trace, context);
  const ScratchFolder folder;
  const auto captured = folder.path() / "window.h5";
  capture_8k_trace(captured, context);
  return rows_of(captured, context);
}

void run_window_suite(SuiteRun& run) {
  run.step(0, 2, "the window");
  for (Row& row : window_rows(run.trace, run.quiet())) run.add(std::move(row));
  run.step(1, 2, "the start of the program");
  for (Row& row : start_rows(run.quiet())) run.add(std::move(row));
  run.step(2, 2, "done");
}

}  // namespace kvloupe::bench
