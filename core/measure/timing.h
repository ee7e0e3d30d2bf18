// How times are taken, for the live latency and for the benchmarks: rounds in which all sides take
// turns, and a round in which other threads of our own ran does not count.
#pragma once

#include "core/base/cancel.h"
#include "core/device/default_device.h"
#include "core/device/gpu_state.h"
#include "core/measure/latency_report.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::measure {

struct TimedPart {
  std::string name;
  std::function<void()> run;
  std::function<void()> prepare = {};  // untimed, before it in each round
};

struct RoundOptions {
  int repetitions = 15;
  int warm_up = 2;
  int threads = 0;  // that the parts may use; 0: those of tensor work
  // Of the parts' tensors. On CUDA a part is timed by events of its stream, on an idle device whose
  // second-level cache was filled with other numbers: what the host takes to launch is in it.
  std::string device = device::kDefault;
  // Asked right after each round; unless given, of a CUDA device its driver.
  std::function<std::optional<device::GpuState>()> watch = {};
};

struct RoundTimes {
  std::vector<std::vector<double>> samples_ms;  // [part][round that counts]
  int discarded = 0;
  std::optional<GpuConditions> gpu;

  LatencyStats stats(std::size_t part) const { return stats_of(samples_ms[part]); }
};

// Runs the parts one after the other, round after round. A round during which more threads of the
// process were busy than `threads`, or after which a GPU's clocks are held down, is thrown away, counted
// and repeated, up to three times as many rounds as asked for. `on_round` sees the times so far. Throws Error{Cancelled} between parts.
RoundTimes time_rounds(const std::vector<TimedPart>& parts, const RoundOptions& options,
                       const WorkContext& context,
                       const std::function<void(const RoundTimes&)>& on_round = {});

}  // namespace kvloupe::measure
