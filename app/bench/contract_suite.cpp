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
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>

namespace kvloupe::bench {
namespace {

using measure::AttentionBench;

// That quoka chooses by itself (AttentionBenchCase::method). Its selection multiplies each key with the mean of a
// group's heads for each of them.
constexpr double kScoringQueries = 16;

// QuoKA after so many keys, or why that was not measured.
struct QuokaAfter {
  std::int64_t past_len = 0;
  std::optional<AttentionBench> bench = {};
  std::string reason = {};
};

QuokaAfter quoka_after(std::int64_t past_len, const SuiteRun& run) {
  QuokaAfter after{past_len};
  try {
    after.bench =
        engine().bench_attention({.past_len = past_len, .device = run.device}, 11, run.quiet());
  } catch (const std::exception& thrown) {
    after.reason = reason_of(thrown);
  }
  return after;
}

Row attention_row(const char* id, std::optional<double> threshold, const QuokaAfter& quoka) {
  Row row{.id = id,
          .meaning = fmt::format("dense / quoka, one chunk after {} keys", quoka.past_len),
          .threshold = threshold,
          .goal = Goal::AtLeast,
          .reason = quoka.reason};
  if (quoka.bench) set_measured(row, *quoka.bench);
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
  try {
    set_measured(row, engine().bench_attention(what, 11, run.quiet()));
  } catch (const std::exception& thrown) {
    row.reason = reason_of(thrown);
  }
  return row;
}

// The best seen before and after the measurement: a floor is what the machine can do.
void see_peaks_again(Machine& machine) {
  machine.read_bandwidth = std::max(machine.read_bandwidth, engine().measure_read_bandwidth());
  machine.fp32_flops = std::max(machine.fp32_flops, engine().measure_peak_flops(ComputeType::Fp32));
}

Row select_floor_row(const QuokaAfter& quoka, const SuiteRun& run) {
  Row row{.id = "select_floor_32k",
          .meaning = "quoka's selection / the longer of reading K once and its products",
          .threshold = run.goal(1.5),
          .goal = Goal::AtMost,
          .reason = quoka.reason};
  if (!quoka.bench) return row;
  const AttentionBench& bench = *quoka.bench;
  if (bench.select.samples == 0) {
    row.reason = "every round was disturbed by other threads";
    return row;
  }
  const double flops = 2 * kScoringQueries * bench.past_key_numbers;
  const double reading_ms = 1000 * bench.key_bytes / run.machine.read_bandwidth;
  const double products_ms = 1000 * flops / run.machine.fp32_flops;
  row.value = bench.select.median_ms / std::max(reading_ms, products_ms);
  row.time = bench.select;
  row.details = {{"reading_k", fmt::format("{:.2f} ms", reading_ms)},
                 {"products", fmt::format("{:.2f} ms", products_ms)},
                 {"floor", reading_ms < products_ms ? "products" : "reading_k"}};
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
  step(1, "attention after 32,768 keys");
  const QuokaAfter at_32k = quoka_after(32768, run);
  if (run.on_processor()) see_peaks_again(run.machine);
  run.add(attention_row("attn_32k", run.goal(14), at_32k));
  step(2, "attention after 65,536 keys");
  run.add(attention_row("attn_64k", run.goal(22), quoka_after(65536, run)));
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
