// The suite `contract`: each row with its definition.
#include "app/bench/bench.h"
#include "app/bench/peer_bench.h"
#include "app/bench/scratch_folder.h"
#include "app/bench/start_rows.h"
#include "capture/engine.h"
#include "capture/run/prefill_bench.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/measure/attention_bench.h"
#include "core/measure/timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvloupe::bench {
namespace {

using measure::AttentionBench;

Row attention_row(const char* id, std::optional<double> threshold, const AttentionBench& bench) {
  Row row{.id = id,
          .meaning = fmt::format("dense / quoka, one chunk after {} keys", bench.past_len),
          .threshold = threshold,
          .goal = Goal::AtLeast};
  set_measured(row, bench);
  return row;
}

// What papers measured on GPUs, and what a processor would take minutes for.
Row gpu_row(const char* id, double threshold, measure::AttentionBenchCase what,
            const SuiteRun& run) {
  Row row{.id = id,
          .meaning = fmt::format("dense / {}, {} queries after {} keys", what.method.id(),
                                 what.chunk_len, what.past_len),
          .threshold = threshold,
          .goal = Goal::AtLeast,
          .reason = why_too_large(what.past_len, what.chunk_len, run)};
  if (!row.reason.empty()) return row;
  what.device = run.device;
  set_measured(row, engine().bench_attention(what, 11, run.quiet()));
  return row;
}

Row select_floor_row(const AttentionBench& bench, const SuiteRun& run) {
  Row row{.id = "select_floor_32k",
          .meaning = "quoka's selection / reading K once",
          .threshold = run.goal(2),
          .goal = Goal::AtMost};
  if (bench.select.samples == 0) {
    row.reason = "every round was disturbed by other threads";
    return row;
  }
  const double floor_ms = 1000 * bench.key_bytes / run.machine.read_bandwidth;
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
  const capture::PrefillBench bench = capture_engine().bench_prefill(options, context);
  row.time = measure::stats_of(bench.recorded_ms);
  const measure::LatencyStats plain = measure::stats_of(bench.plain_ms);
  row.value = row.time.median_ms / plain.median_ms;
  row.details = {{"tokens", std::to_string(bench.tokens)}, {"not_recorded", stats_text(plain)}};
  return row;
}

}  // namespace

void run_contract_suite(SuiteRun& run) {
  const auto step = [&](std::size_t done, const char* what) { run.step(done, 8, what); };
  const WorkContext quiet = run.quiet();
  const auto quoka_after = [&](std::int64_t past_len) {
    return engine().bench_attention({.past_len = past_len, .device = run.device}, 11, quiet);
  };
  step(1, "attention after 32,768 keys");
  const AttentionBench at_32k = quoka_after(32768);
  // The best bandwidth seen before and after: the floor is what the machine can do.
  if (run.on_processor())
    run.machine.read_bandwidth =
        std::max(run.machine.read_bandwidth, engine().measure_read_bandwidth());
  run.add(attention_row("attn_32k", run.goal(12), at_32k));
  step(2, "attention after 65,536 keys");
  run.add(attention_row("attn_64k", run.goal(20), quoka_after(65536)));
  run.add(select_floor_row(at_32k, run));
  step(3, "paged attention after 65,536 keys");
  run.add(paged_90(run));
  if (!run.on_processor()) {
    step(4, "quoka after 30,720 keys");
    run.add(gpu_row("quoka_30k", 5, {.past_len = 30720}, run));
    step(5, "compact_attention after 131,072 keys");
    run.add(gpu_row("compact_128k", 2.72,
                    {.past_len = 131072,
                     .chunk_len = 1024,
                     .method = selection::MethodSpec::parse("compact_attention"),
                     .keys = measure::SyntheticKeys::Clustered},
                    run));
    // What is left concerns the program and the processor.
    return step(8, "done");
  }
  step(4, "recording a prefill of 4,096 tokens");
  run.add(capture_overhead_row(quiet));
  step(5, "the peer");
  // Before the window, which changes how this process keeps memory.
  Row peer = capture_vs_peer(run.peers, quiet);
  step(6, "the window");
  for (Row& row : window_rows(run.trace, quiet)) run.add(std::move(row));
  step(7, "the start of the program");
  for (Row& row : start_rows(quiet)) run.add(std::move(row));
  run.add(std::move(peer));
  step(8, "done");
}

}  // namespace kvloupe::bench
