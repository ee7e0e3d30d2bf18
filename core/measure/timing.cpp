#include "core/measure/timing.h"

#include "core/device/thread_usage.h"
#include "core/device/threads.h"
#include "core/device/torch_device.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>

namespace kvloupe::measure {
namespace {

using Clock = std::chrono::steady_clock;

double ms_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

struct Round {
  std::vector<double> ms;
  bool disturbed = false;
  std::optional<device::GpuState> gpu;

  bool throttled() const { return gpu && gpu->throttled; }
};

double ms_of(const std::function<void()>& run, c10::Device device) {
  if (!device.is_cuda()) {
    const auto begin = Clock::now();
    run();
    return ms_between(begin, Clock::now());
  }
  // More than the second-level cache of any device.
  constexpr std::int64_t kFlushed = 256LL << 20;
  at::empty({kFlushed}, at::dtype(at::kByte).device(device)).zero_();
  device::wait_for(device);  // or the host's launches would hide behind the fill
  const c10::impl::VirtualGuardImpl guard(device.type());
  const c10::Stream stream = guard.getStream(device);
  c10::Event begin(device.type(), c10::EventFlag::BACKEND_DEFAULT),
      end(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  begin.record(stream);
  run();
  end.record(stream);
  end.synchronize();
  return begin.elapsedTime(end);
}

Round run_round(const std::vector<TimedPart>& parts, const RoundOptions& options, c10::Device place,
                const WorkContext& context) {
  const int threads = options.threads > 0 ? options.threads : device::num_threads();
  Round round;
  device::ThreadUsage before = device::ThreadUsage::now();
  double prepared_ms = 0;
  const auto prepare = [&](const TimedPart& part) {
    const device::ThreadUsage from = device::ThreadUsage::now();
    const auto begin = Clock::now();
    part.prepare();
    prepared_ms += ms_between(begin, Clock::now());
    before.leave_out(from, device::ThreadUsage::now());
  };
  const auto begin = Clock::now();
  for (const TimedPart& part : parts) {
    context.cancel.throw_if_cancelled();
    if (part.prepare) prepare(part);
    round.ms.push_back(ms_of(part.run, place));
  }
  const double seconds = (ms_between(begin, Clock::now()) - prepared_ms) / 1000;
  round.disturbed = device::ThreadUsage::now().busy_since(before, seconds) > threads;
  if (options.watch)
    round.gpu = options.watch();
  else if (place.is_cuda())
    round.gpu = device::gpu_state(place.index());
  return round;
}

void note(const Round& round, bool counts, std::optional<GpuConditions>& gpu) {
  if (!round.gpu) return;
  if (!gpu) gpu.emplace();
  gpu->throttled += round.throttled();
  if (!counts) return;
  const device::GpuState& now = *round.gpu;
  const bool first = gpu->rounds++ == 0;
  gpu->least_sm_mhz = first ? now.sm_mhz : std::min(gpu->least_sm_mhz, now.sm_mhz);
  gpu->largest_sm_mhz = std::max(gpu->largest_sm_mhz, now.sm_mhz);
  gpu->least_memory_mhz = first ? now.memory_mhz : std::min(gpu->least_memory_mhz, now.memory_mhz);
  gpu->largest_memory_mhz = std::max(gpu->largest_memory_mhz, now.memory_mhz);
  gpu->most_power_w = std::max(gpu->most_power_w, now.power_w);
  gpu->most_celsius = std::max(gpu->most_celsius, now.temperature_c);
}

}  // namespace

RoundTimes time_rounds(const std::vector<TimedPart>& parts, const RoundOptions& options,
                       const WorkContext& context,
                       const std::function<void(const RoundTimes&)>& on_round) {
  const c10::Device place = device::torch_device(options.device);
  RoundTimes times;
  times.samples_ms.resize(parts.size());
  const int most = options.warm_up + 3 * options.repetitions;
  for (int i = 0, counted = 0; i < most && counted < options.repetitions; ++i) {
    const Round round = run_round(parts, options, place, context);
    if (i < options.warm_up) continue;
    const bool counts = !round.disturbed && !round.throttled();
    note(round, counts, times.gpu);
    if (!counts) {
      ++times.discarded;
    } else {
      for (std::size_t p = 0; p < parts.size(); ++p) times.samples_ms[p].push_back(round.ms[p]);
      ++counted;
    }
    if (on_round) on_round(times);
  }
  return times;
}

}  // namespace kvloupe::measure
