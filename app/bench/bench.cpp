#include "app/bench/bench.h"

#include "core/base/version.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/measure/failure_of_one.h"
#include "core/measure/peaks.h"
#include "core/measure/timed_type.h"

#include <fmt/format.h>

#include <array>

namespace kvloupe::bench {

void set_measured(Row& row, const measure::AttentionBench& bench) {
  row.dense_left_out = bench.dense_left_out;
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
  row.numbers = {{"dense_ms", bench.dense.median_ms},
                 {"select_ms", bench.select.median_ms},
                 {"density", bench.density}};
  if (!bench.counts) return;
  row.numbers.emplace_back("launches", static_cast<double>(bench.counts->chain.launches));
  row.numbers.emplace_back("host_waits", static_cast<double>(bench.counts->chain.host_waits));
}

std::string stats_text(const measure::LatencyStats& stats) {
  return fmt::format("{:.2f} ms ({:.2f} to {:.2f})", stats.median_ms, stats.q25_ms, stats.q75_ms);
}

std::string reason_of(const std::exception& thrown) {
  return measure::failure_of_one("it is not measured", thrown).what();
}

Machine describe_machine(const std::string& device) {
  const device::DeviceInfo info = engine().open_device(device);
  const ComputeType type = engine().timed_type(device, trace::DType::F16);
  // Selection computes in fp32 whatever the type of the keys.
  const measure::Peaks& peaks = engine().peaks_of(device, ComputeType::Fp32);
  return {info.label(),      info.name, info.threads, peaks.bytes_per_s,
          peaks.flops_per_s, type,      version()};
}

const char* name_of(Goal goal) { return goal == Goal::AtLeast ? "at_least" : "at_most"; }

std::optional<bool> Row::holds() const {
  if (!value || !threshold) return std::nullopt;
  return goal == Goal::AtLeast ? *value >= *threshold : *value <= *threshold;
}

void SuiteRun::step(std::size_t done, std::size_t total, const std::string& what) const {
  context.cancel.throw_if_cancelled();
  context.report(static_cast<std::int64_t>(done), static_cast<std::int64_t>(total), what);
}

std::span<const Suite> suites() {
  static constexpr std::array<Suite, 5> kSuites = {{
      {"contract", "the performance goals", run_contract_suite, true},
      {"paged", "paged attention against dense attention, 8k to 128k keys", run_paged_suite, true},
      {"prefill", "prefill of the default model, recorded and not, and its linear layers",
       run_prefill_suite},
      {"lengths", "every method beside dense attention, 1k to 64k keys", run_lengths_suite, true},
      {"window", "frames, opening, memory and start of the window", run_window_suite, false, true},
  }};
  return kSuites;
}

}  // namespace kvloupe::bench
