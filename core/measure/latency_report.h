// What timing a method gives: times by part, under which conditions, and what they may be compared with.
// Without Torch.
#pragma once

#include "core/device/device_work.h"
#include "core/trace/runs/selection_record.h"
#include "core/trace/trace_types.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::measure {

struct LatencyStats {
  double median_ms = 0, q25_ms = 0, q75_ms = 0;
  int samples = 0;
};

// Median and quartiles; quartiles interpolate linearly between the samples.
LatencyStats stats_of(std::vector<double> samples_ms);

// What a GPU's driver said after the rounds that count; least and largest clocks, most power and heat, where it tells
// them.
struct GpuConditions {
  int least_sm_mhz = 0, largest_sm_mhz = 0;
  int least_memory_mhz = 0, largest_memory_mhz = 0;
  std::optional<double> most_power_w = {};
  std::optional<int> most_celsius = {};
  int rounds = 0;
  int throttled = 0;  // rounds thrown away because its clocks were held down
};
// "GPU at 1,755 to 1,980 MHz, memory 2,619 MHz, up to 346 W and 57 C".
std::string words_of(const GpuConditions& gpu);
inline constexpr const char* kNotTimed =
    "not timed: every round was disturbed; run again when nothing else runs";
inline constexpr const char* kUnknownConditions =
    "clocks, power and heat are not known (no NVML), throttled rounds are not noticed";

// A form of dense attention that nothing was compared with.
struct DenseLeftOut {
  std::string form;  // "sdpa gqa"
  std::string why;
};

// How attention reads what was selected.
enum class KvReads {
  Copies,  // the selected KVs, copied together
  Tables,  // whole pages or blocks where they lie, by tables that rows of query heads share
  Masks,   // blocks where they lie, by the mask of each query head's query block
};
// What `gather` is then: "gather", "block tables", "block masks".
const char* gather_name(KvReads reads);

struct LatencyReport {
  std::string method;  // canonical
  std::string device;  // "cpu, 2 threads (AMD EPYC)", "cuda:0 (NVIDIA H200)"
  std::string dtype;   // timed_type(): "fp32", "fp16"
  int layer = 0, chunk = 0;
  trace::Phase phase = trace::Phase::Prefill;
  std::int64_t past_len = 0, chunk_len = 0;
  // The past was cut or repeated to this length (LatencyOptions::past_len).
  bool lengthened = false;
  LatencyStats select, gather, attend, total, dense;
  // `gather` is the time of copying, or of making tables or masks.
  KvReads reads = KvReads::Copies;
  std::string dense_variant;  // which of the dense baselines was fastest
  std::vector<DenseLeftOut> dense_left_out;
  // Set where the method attends to all keys in this cell: it ran dense attention itself.
  std::optional<trace::DenseReason> dense_reason;
  // The run multiplied only what the method uses by its definition (is_executed). Else it is simulated,
  // and its time does not show the method's speed.
  bool executed = true;
  // Attention over what was kept can take no less on this machine: its bytes at the measured
  // bandwidth or its products at the measured peak, whichever is longer. Selection is not in it.
  double floor_ms = 0;
  // Peaks that were measured on a busy machine are too low: then attention took less than they allow.
  bool floor_holds() const { return floor_ms > 0 && attend.median_ms >= 0.97 * floor_ms; }
  // On `sim` and a GPU, of a round of its own after the others; none where it cannot be counted.
  struct Counts {
    device::DeviceWork chain, select, gather, attend;
  };
  std::optional<Counts> counts;
  int discarded = 0;  // samples thrown away: our own threads were busy, or a GPU throttled
  // False where every round was thrown away: then all times are 0 and say nothing.
  bool timed() const { return total.samples > 0; }
  std::optional<GpuConditions> gpu;
  bool finished = false;

  // Why no speed is given: "sim runs in host memory, its times are no device's". Empty where it was
  // executed.
  std::string why_simulated() const;
  // Under what conditions a GPU was timed, or that they are not known; empty elsewhere.
  std::string gpu_words() const;
  // Dense attention's time over the method's; none for what is simulated or was not timed.
  std::optional<double> speedup() const;
};

// The last prefill chunk that is as long as the longest: where methods are timed unless told.
int last_full_chunk(const trace::TraceInfo& info);

}  // namespace kvloupe::measure
