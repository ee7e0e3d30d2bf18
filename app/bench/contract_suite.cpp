// The suite `contract`: each row with its definition.
#include "app/bench/bench.h"
#include "app/bench/scratch_folder.h"
#include "app/shell/frame_bench.h"
#include "capture/run/capture.h"
#include "capture/run/prefill_bench.h"
#include "core/base/error.h"
#include "core/base/version.h"
#include "core/device/device.h"
#include "core/measure/attention_bench.h"
#include "core/measure/timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace kvloupe::bench {
namespace {

using measure::AttentionBench;

Row attention_row(const char* id, double threshold, const AttentionBench& bench) {
  Row row{.id = id,
          .meaning = fmt::format("dense / quoka, one chunk after {} keys", bench.past_len),
          .threshold = threshold,
          .goal = Goal::AtLeast};
  set_measured(row, bench);
  return row;
}

Row select_floor_row(const AttentionBench& bench, double read_bandwidth) {
  Row row{.id = "select_floor_32k",
          .meaning = "quoka's selection / reading K once",
          .threshold = 2,
          .goal = Goal::AtMost};
  if (bench.select.samples == 0) {
    row.reason = "every round was disturbed by other threads";
    return row;
  }
  const double floor_ms = 1000 * bench.key_bytes / read_bandwidth;
  row.value = bench.select.median_ms / floor_ms;
  row.time = bench.select;
  row.details = {{"reading_k", fmt::format("{:.2f} ms", floor_ms)}};
  return row;
}

Row capture_overhead_row(const WorkContext& context) {
  Row row{.id = "capture_overhead",
          .meaning = "prefill recorded / the same not recorded",
          .threshold = 1.25,
          .goal = Goal::AtMost};
  const ScratchFolder folder;
  capture::PrefillBenchOptions options;
  options.folder = folder.path();
  const capture::PrefillBench bench = capture::bench_prefill(options, context);
  row.time = measure::stats_of(bench.recorded_ms);
  const measure::LatencyStats plain = measure::stats_of(bench.plain_ms);
  row.value = row.time.median_ms / plain.median_ms;
  row.details = {{"tokens", std::to_string(bench.tokens)}, {"not_recorded", stats_text(plain)}};
  return row;
}

// A trace of the default model's whole context, with one method's selections.
void capture_8k_trace(const std::filesystem::path& output, const WorkContext& context) {
  capture::CaptureOptions options;
  options.model = "smollm2";
  options.task = "niah:length=8192,depth=0.5,seed=1";
  options.methods = {selection::MethodSpec::parse("quoka:budget_tokens=1024")};
  options.output = output;
  capture::run_capture(options, {}, context);
  context.cancel.throw_if_cancelled();
}

// The rows frame and open_s.
std::vector<Row> window_rows(const WorkContext& context) {
  Row frame{.id = "frame",
            .meaning = "99th percentile of frame times while scrubbing 8k tokens",
            .unit = "ms",
            .threshold = 33,
            .goal = Goal::AtMost};
  Row open{.id = "open_s",
           .meaning = "window up until kv_map, token strip and attention rows are drawn",
           .unit = "s",
           .threshold = 1,
           .goal = Goal::AtMost};
  const ScratchFolder folder;
  const auto trace = folder.path() / "window.h5";
  capture_8k_trace(trace, context);
  shell::FrameBenchReport report;
  try {
    report = shell::measure_frames(trace.string(), {});
  } catch (const Error& error) {
    // A machine that cannot draw still has its other rows.
    if (error.kind() != ErrorKind::Input) throw;
    frame.reason = open.reason = error.what();
    return {frame, open};
  }
  frame.value = report.p99_ms;
  frame.time = measure::stats_of(report.frame_ms);
  frame.details = {{"max", fmt::format("{:.1f} ms", report.max_ms)}, {"renderer", report.renderer}};
  open.value = report.open_s;
  return {frame, open};
}

}  // namespace

void set_measured(Row& row, const AttentionBench& bench) {
  if (bench.sparse.samples == 0) {
    row.reason = "every round was disturbed by other threads";
    return;
  }
  row.value = bench.speed_up();
  row.time = bench.sparse;
  row.details = {{"dense_variant", bench.dense_variant},
                 {"dense", stats_text(bench.dense)},
                 {"select", stats_text(bench.select)},
                 {"method", bench.method},
                 {"discarded_rounds", std::to_string(bench.discarded)}};
}

std::string stats_text(const measure::LatencyStats& stats) {
  return fmt::format("{:.2f} ms ({:.2f} to {:.2f})", stats.median_ms, stats.q25_ms, stats.q75_ms);
}

Machine describe_machine() {
  const device::DeviceInfo info = device::open_device("cpu");
  return {info.label(), info.name, info.threads, device::measure_read_bandwidth(), version()};
}

const char* name_of(Goal goal) { return goal == Goal::AtLeast ? "at_least" : "at_most"; }

std::optional<bool> Row::holds() const {
  if (!value || !threshold) return std::nullopt;
  return goal == Goal::AtLeast ? *value >= *threshold : *value <= *threshold;
}

Report run_contract_suite(bool peers, const WorkContext& context) {
  const auto step = [&](int done, const char* what) {
    context.cancel.throw_if_cancelled();
    context.report(done, 8, what);
  };
  // Rounds inside a row report nothing: the suite counts rows.
  const WorkContext quiet{context.cancel, {}};
  Report report;
  step(0, "memory");
  report.machine = describe_machine();
  step(1, "attention after 32,768 keys");
  const AttentionBench at_32k = measure::bench_attention({.past_len = 32768}, 11, quiet);
  // The best bandwidth seen before and after: the floor is what the machine can do.
  report.machine.read_bandwidth =
      std::max(report.machine.read_bandwidth, device::measure_read_bandwidth());
  report.rows.push_back(attention_row("attn_32k", 12, at_32k));
  step(2, "attention after 65,536 keys");
  report.rows.push_back(
      attention_row("attn_64k", 20, measure::bench_attention({.past_len = 65536}, 11, quiet)));
  report.rows.push_back(select_floor_row(at_32k, report.machine.read_bandwidth));
  step(3, "paged attention after 65,536 keys");
  report.rows.push_back(paged_90(quiet));
  step(4, "recording a prefill of 4,096 tokens");
  report.rows.push_back(capture_overhead_row(quiet));
  step(5, "the window");
  for (Row& row : window_rows(quiet)) report.rows.push_back(std::move(row));
  step(6, "the start of the program");
  for (Row& row : start_rows(quiet)) report.rows.push_back(std::move(row));
  step(7, "the peer");
  report.rows.push_back(capture_vs_peer(peers, quiet));
  step(8, "done");
  return report;
}

}  // namespace kvloupe::bench
