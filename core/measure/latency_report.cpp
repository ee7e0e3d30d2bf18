#include "core/measure/latency_report.h"

#include "core/base/error.h"
#include "core/base/quantile.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::measure {
namespace {

std::string span_of(int least, int largest) {
  return least == largest ? format_count(least)
                          : format_count(least) + " to " + format_count(largest);
}

// ", up to 346 W and 57 C", of what is known.
std::string most_of(const GpuConditions& gpu) {
  std::string most;
  if (gpu.most_power_w) most = fmt::format(", up to {:.0f} W", *gpu.most_power_w);
  if (gpu.most_celsius)
    most += fmt::format("{} {} C", most.empty() ? ", up to" : " and", *gpu.most_celsius);
  return most;
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

std::string words_of(const GpuConditions& gpu) {
  std::string text = "GPU";
  if (gpu.rounds > 0)
    text +=
        fmt::format(" at {} MHz, memory {} MHz{}", span_of(gpu.least_sm_mhz, gpu.largest_sm_mhz),
                    span_of(gpu.least_memory_mhz, gpu.largest_memory_mhz), most_of(gpu));
  if (gpu.throttled > 0)
    text += fmt::format(", throttled in {} round{}, which do{} not count", gpu.throttled,
                        gpu.throttled == 1 ? "" : "s", gpu.throttled == 1 ? "es" : "");
  return text;
}

const char* gather_name(KvReads reads) {
  switch (reads) {
    case KvReads::Copies: return "gather";
    case KvReads::Tables: return "block tables";
    case KvReads::Masks: return "block masks";
  }
  fail_check("a known way to read", __FILE__, __LINE__);
}

int last_full_chunk(const trace::TraceInfo& info) {
  std::optional<int> last;
  for (const int i : info.chunks_with_queries()) {
    const trace::ChunkInfo& chunk = info.chunks[i];
    if (chunk.phase == trace::Phase::Prefill &&
        (!last || chunk.length >= info.chunks[*last].length))
      last = i;
  }
  return last.value_or(0);
}

std::string LatencyReport::why_simulated() const {
  if (executed) return {};
  return device.starts_with("sim") ? "sim runs in host memory, its times are no device's"
                                   : "lanes or channels that are left out are multiplied too";
}

std::string LatencyReport::gpu_words() const {
  if (gpu) return words_of(*gpu);
  return device.starts_with("cuda") && total.samples > 0 ? kUnknownConditions : "";
}

std::optional<double> LatencyReport::speedup() const {
  if (!executed || total.samples == 0 || total.median_ms <= 0) return std::nullopt;
  return dense.median_ms / total.median_ms;
}

}  // namespace kvloupe::measure
