// The suite `lengths`: every method of the catalogue beside dense attention after 1k to 64k keys, on a
// synthetic trace whose past is repeated (core/measure/cell_source.h).
#include "app/bench/bench.h"
#include "app/bench/scratch_folder.h"
#include "capture/engine.h"
#include "capture/run/synthetic.h"
#include "core/base/units.h"
#include "core/engine/engine.h"
#include "core/measure/latency.h"
#include "core/replay/compare.h"
#include "core/session/session.h"

#include <fmt/format.h>

#include <array>
#include <exception>

namespace kvloupe::bench {
namespace {

constexpr std::array<std::int64_t, 4> kPastLengths = {1 << 10, 1 << 12, 1 << 14, 1 << 16};
constexpr std::int64_t kTraceTokens = 8192;
constexpr int kLengthsRepetitions = 3;

Row empty_row(const std::string& method, std::int64_t past_len) {
  return {.id = fmt::format("{}_{}k", selection::method_id(method), past_len / 1024),
          .meaning =
              fmt::format("dense / {}, one chunk after {} keys", method, format_count(past_len))};
}

Row row_of(const measure::LatencyReport& report, std::int64_t past_len) {
  Row row = empty_row(report.method, past_len);
  row.time = report.total;
  row.value = report.speedup();
  if (!row.value) {
    row.reason = report.dense_reason ? "it attends to all keys here"
                 : !report.executed  ? "simulated: what ran does more than the method claims"
                                     : "every round was disturbed by other threads";
  }
  row.numbers = {{"dense_ms", report.dense.median_ms},
                 {"select_ms", report.select.median_ms},
                 {"gather_ms", report.gather.median_ms},
                 {"attend_ms", report.attend.median_ms},
                 {"floor_ms", report.floor_ms}};
  row.details = {{"dense_variant", report.dense_variant}};
  row.dense_left_out = report.dense_left_out;
  return row;
}

Row measured(const session::TraceSession& session, const selection::MethodSpec& spec,
             std::int64_t past_len, const SuiteRun& run) {
  measure::LatencyOptions options;
  options.device = run.device;
  options.repetitions = kLengthsRepetitions;
  options.warm_up = 1;
  options.past_len = past_len;
  const int chunk = measure::last_full_chunk(session.info());
  try {
    const int layer = session.info().layers.front();
    return row_of(engine().measure_latency(session, spec, layer, chunk, options, run.quiet(), {}),
                  past_len);
  } catch (const std::exception& thrown) {
    // A method that needs what no synthetic trace has, or more memory, still leaves the others their rows.
    Row row = empty_row(spec.resolved(session.shape()).canonical(), past_len);
    row.reason = reason_of(thrown);
    return row;
  }
}

}  // namespace

void run_lengths_suite(SuiteRun& run) {
  const ScratchFolder folder;
  capture::SyntheticOptions synthetic;
  synthetic.length = kTraceTokens;
  synthetic.output = folder.path() / "lengths.h5";
  capture_engine().synthesize(synthetic, run.quiet());
  const session::TraceSession session(synthetic.output.string());
  const auto methods = replay::parse_methods("all").required_specs();
  const std::size_t steps = methods.size() * kPastLengths.size();
  std::size_t done = 0;
  for (const selection::MethodSpec& spec : methods)
    for (const std::int64_t past_len : kPastLengths) {
      run.step(done++, steps, fmt::format("{} after {} keys", spec.id(), format_count(past_len)));
      run.add(measured(session, spec, past_len, run));
    }
  run.step(steps, steps, "done");
}

}  // namespace kvloupe::bench
