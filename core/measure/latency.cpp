#include "core/measure/latency.h"

#include "core/base/error.h"
#include "core/device/device.h"
#include "core/measure/dense_baseline.h"
#include "core/measure/method_run.h"
#include "core/measure/peaks.h"
#include "core/measure/timed_type.h"
#include "core/measure/timing.h"
#include "core/trace/fields/trace_names.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace kvloupe::measure {
namespace {

void fill(const RoundTimes& times, const std::vector<TimedPart>& parts, LatencyReport* report) {
  report->discarded = times.discarded;
  report->gpu = times.gpu;
  report->select = times.stats(kSelect);
  report->gather = times.stats(kGather);
  report->attend = times.stats(kAttend);
  report->total = times.stats(kChain);
  const std::size_t dense = fastest_of(times, kFirstDense, parts.size() - kFirstDense);
  report->dense = times.stats(dense);
  report->dense_variant = parts[dense].name;
}

double floor_ms(const Work& work, const Peaks& peaks) {
  return 1000 * std::max(work.bytes / peaks.bytes_per_s, work.flops / peaks.flops_per_s);
}

}  // namespace

bool is_executed(const selection::MethodSpec& spec, device::DeviceKind kind) {
  if (kind == device::DeviceKind::Sim) return false;
  const auto& lanes = spec.traits().lanes;
  return kind == device::DeviceKind::Cpu || !lanes || lanes->leading;
}

LatencyReport measure_latency(const session::TraceSession& session,
                              const selection::MethodSpec& spec, int layer, int chunk,
                              const LatencyOptions& options, const WorkContext& context,
                              const std::function<void(const LatencyReport&)>& on_sample) {
  const device::DeviceInfo device = device::open_device(options.device);
  const ComputeType type = timed_type(options.device, session.info().dtype);
  const auto cells = options.past_len
                         ? lengthened_cells(session, spec, chunk, *options.past_len, options.device)
                         : trace_cells(session, spec, chunk, options.device);
  MethodRun run(session, spec, *cells, layer, context);
  const selection::Cell& cell = run.cell();
  const DenseBaseline dense(cell.q, cell.k, cell.v, cell.softmax);
  std::vector<TimedPart> parts = run.parts(context);
  for (TimedPart& part : dense.parts()) parts.push_back(std::move(part));

  LatencyReport report;
  report.method = run.spec().canonical();
  report.device = device.label();
  report.dtype = trace::to_text(type);
  report.layer = layer;
  report.chunk = chunk;
  report.phase = cell.phase;
  report.past_len = cell.past_len;
  report.chunk_len = cell.chunk_len;
  report.lengthened = options.past_len.has_value();
  report.executed = is_executed(run.spec(), device.kind);
  report.dense_left_out = dense.left_out();
  const Peaks& peaks = peaks_of(options.device, type);  // before anything is timed
  RoundOptions rounds;
  rounds.repetitions = options.repetitions;
  rounds.warm_up = options.warm_up;
  rounds.device = options.device;
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
  report.counts = run.counts(device, context);
  report.finished = true;
  return report;
}

}  // namespace kvloupe::measure
