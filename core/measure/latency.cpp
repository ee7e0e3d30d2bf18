#include "core/measure/latency.h"

#include "core/base/error.h"
#include "core/device/device.h"
#include "core/device/torch_device.h"
#include "core/measure/dense_baseline.h"
#include "core/measure/method_run.h"
#include "core/measure/timing.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace kvloupe::measure {
namespace {

enum Part : std::size_t { kSelect, kGather, kAttend, kFirstDense };

void fill(const RoundTimes& times, const std::vector<TimedPart>& parts, LatencyReport* report) {
  report->discarded = times.discarded;
  report->select = times.stats(kSelect);
  report->gather = times.stats(kGather);
  report->attend = times.stats(kAttend);
  std::vector<double> totals;
  for (std::size_t i = 0; i < times.samples_ms[kSelect].size(); ++i) {
    totals.push_back(times.samples_ms[kSelect][i] + times.samples_ms[kGather][i] +
                     times.samples_ms[kAttend][i]);
  }
  report->total = stats_of(std::move(totals));
  const std::size_t dense = fastest_of(times, kFirstDense, parts.size() - kFirstDense);
  report->dense = times.stats(dense);
  report->dense_variant = parts[dense].name;
}

// What the device reads and multiplies in a second. Measured once in a process, with nothing else
// running: about a second.
struct Peaks {
  double bytes_per_s = 0, flops_per_s = 0;
};
Peaks measured_peaks(c10::Device device) {
  // `sim` runs on the processor.
  if (!device.is_cuda()) return {device::measure_read_bandwidth(), device::measure_peak_flops()};
  constexpr std::int64_t kNumbers = 1 << 28, kSize = 4096;
  const at::Tensor numbers = at::ones({kNumbers}, at::dtype(at::kFloat).device(device));
  const at::Tensor matrix = numbers.narrow(0, 0, kSize * kSize).view({kSize, kSize});
  const RoundTimes times =
      time_rounds({{"read", [&] { numbers.sum(); }}, {"multiply", [&] { at::mm(matrix, matrix); }}},
                  {.repetitions = 7, .device = device.str()}, {});
  const auto rate = [&](std::size_t part, double work) {
    return 1000 * work / *std::ranges::min_element(times.samples_ms[part]);
  };
  return {rate(0, sizeof(float) * static_cast<double>(kNumbers)),
          rate(1, 2.0 * kSize * kSize * kSize)};
}
const Peaks& peaks_of(c10::Device device) {
  static std::mutex mutex;
  static std::map<std::string, Peaks> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(device.str());
  return found != known.end() ? found->second
                              : known.emplace(device.str(), measured_peaks(device)).first->second;
}

double floor_ms(const Work& work, const Peaks& peaks) {
  return 1000 * std::max(work.bytes / peaks.bytes_per_s, work.flops / peaks.flops_per_s);
}

}  // namespace

const char* gather_name(KvReads reads) {
  switch (reads) {
    case KvReads::Copies:
      return "gather";
    case KvReads::Tables:
      return "block tables";
    case KvReads::Masks:
      return "block masks";
  }
  fail_check("a known way to read", __FILE__, __LINE__);
}

int last_full_chunk(const trace::TraceInfo& info) {
  int last = 0;
  for (int i = 0; i < static_cast<int>(info.chunks.size()); ++i) {
    const trace::ChunkInfo& chunk = info.chunks[i];
    if (chunk.phase == trace::Phase::Prefill && chunk.length >= info.chunks[last].length) last = i;
  }
  return last;
}

std::string LatencyReport::why_simulated() const {
  if (executed) return {};
  return device.starts_with("sim") ? "sim runs in host memory, its times are no device's"
                                   : "lanes or channels that are left out are multiplied too";
}

std::optional<double> LatencyReport::speedup() const {
  if (!executed || total.samples == 0 || total.median_ms <= 0) return std::nullopt;
  return dense.median_ms / total.median_ms;
}

LatencyReport measure_latency(const session::TraceSession& session,
                              const selection::MethodSpec& spec, int layer, int chunk,
                              const LatencyOptions& options, const WorkContext& context,
                              const std::function<void(const LatencyReport&)>& on_sample) {
  const device::DeviceInfo device = device::open_device(options.device);
  const c10::Device torch = device::torch_device(options.device);
  const auto cells = options.past_len
                         ? lengthened_cells(session, spec, chunk, *options.past_len, torch)
                         : trace_cells(session, spec, chunk, torch);
  MethodRun run(session, spec, *cells, layer, context);
  const selection::Cell& cell = run.cell();
  const DenseBaseline dense(cell.q, cell.k, cell.v, cell.softmax);
  std::vector<TimedPart> parts = {{"select", [&] { run.select(); }},
                                  {"gather", [&] { run.gather(); }},
                                  {"attend", [&] { run.attend(); }}};
  for (TimedPart& part : dense.parts()) parts.push_back(std::move(part));

  LatencyReport report;
  report.method = run.spec().canonical();
  report.device = device.label();
  report.dtype = "fp32";
  report.layer = layer;
  report.chunk = chunk;
  report.phase = cell.phase;
  report.past_len = cell.past_len;
  report.chunk_len = cell.chunk_len;
  report.lengthened = options.past_len.has_value();
  report.executed = run.spec().traits().executed && device.kind != device::DeviceKind::Sim;
  const Peaks& peaks = peaks_of(torch);  // before anything is timed
  RoundOptions rounds;
  rounds.repetitions = options.repetitions;
  rounds.warm_up = options.warm_up;
  rounds.device = options.device;
  rounds.prepare = [&] { run.prepare(context); };
  const auto update = [&](const RoundTimes& times) {
    fill(times, parts, &report);
    report.reads = run.reads();
    report.dense_reason = run.selected().dense_reason;
    report.floor_ms = floor_ms(run.attention_work(), peaks);
  };
  const RoundTimes times = time_rounds(parts, rounds, context, [&](const RoundTimes& so_far) {
    update(so_far);
    context.report(report.total.samples, options.repetitions, "rounds");
    if (on_sample) on_sample(report);
  });
  update(times);
  report.finished = true;
  return report;
}

}  // namespace kvloupe::measure
