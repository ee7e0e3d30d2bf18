#include "core/measure/timing.h"

#include "core/base/quantile.h"
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

Round run_round(const std::vector<TimedPart>& parts, c10::Device place, int threads,
                const WorkContext& context) {
  Round round;
  const device::ThreadUsage before = device::ThreadUsage::now();
  const auto begin = Clock::now();
  for (const TimedPart& part : parts) {
    context.cancel.throw_if_cancelled();
    round.ms.push_back(ms_of(part.run, place));
  }
  const double seconds = ms_between(begin, Clock::now()) / 1000;
  round.disturbed = device::ThreadUsage::now().busy_since(before, seconds) > threads;
  return round;
}

}  // namespace

LatencyStats stats_of(std::vector<double> samples_ms) {
  LatencyStats stats;
  stats.samples = static_cast<int>(samples_ms.size());
  if (samples_ms.empty()) return stats;
  std::sort(samples_ms.begin(), samples_ms.end());
  stats.median_ms = quantile(samples_ms, 0.5);
  stats.q25_ms = quantile(samples_ms, 0.25);
  stats.q75_ms = quantile(samples_ms, 0.75);
  return stats;
}

RoundTimes time_rounds(const std::vector<TimedPart>& parts, const RoundOptions& options,
                       const WorkContext& context,
                       const std::function<void(const RoundTimes&)>& on_round) {
  const int threads = options.threads > 0 ? options.threads : device::num_threads();
  const c10::Device place = device::torch_device(options.device);
  RoundTimes times;
  times.samples_ms.resize(parts.size());
  const int most = options.warm_up + 3 * options.repetitions;
  for (int i = 0, counted = 0; i < most && counted < options.repetitions; ++i) {
    if (options.prepare) options.prepare();
    const Round round = run_round(parts, place, threads, context);
    if (i < options.warm_up) continue;
    if (round.disturbed) {
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
