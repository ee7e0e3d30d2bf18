// A method against dense attention of one chunk, on synthetic inputs of shape S (24 query heads, 8 KV
// heads, head_dim 128, of the device's timed_type()): the attention benchmarks of the contract, and
// block methods.
#pragma once

#include "core/base/cancel.h"
#include "core/device/default_device.h"
#include "core/measure/latency_report.h"
#include "core/selection/spec/method_spec.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::measure {

enum class SyntheticKeys {
  Random,     // independent normal values
  Clustered,  // blocks of 128 keys around centres of their own; queries look for a few of them
};

struct AttentionBenchCase {
  std::int64_t past_len = 0;
  std::int64_t chunk_len = 128;
  selection::MethodSpec method =
      selection::MethodSpec::parse("quoka:budget_tokens=1024,num_queries=16");
  SyntheticKeys keys = SyntheticKeys::Random;
  std::string device = device::kDefault;  // as device::open_device() takes it
};

struct AttentionBench {
  std::int64_t past_len = 0;
  std::string method;  // canonical
  double density = 0;  // past keys selected / past keys, over the method's rows
  // Selection and attention of the method, timed as one chain: that of measure_latency().
  LatencyStats sparse;
  LatencyStats select;  // its selection alone
  LatencyStats dense;   // the fastest of the dense variants
  std::string dense_variant;
  std::vector<DenseLeftOut> dense_left_out;
  double key_bytes = 0;         // of the past and the chunk's keys, all KV heads
  double past_key_numbers = 0;  // of the past's keys, all KV heads
  int discarded = 0;
  std::optional<LatencyReport::Counts> counts;  // as those of a LatencyReport

  double speed_up() const { return dense.median_ms / sparse.median_ms; }
};

AttentionBench bench_attention(const AttentionBenchCase& what, int repetitions,
                               const WorkContext& context);

}  // namespace kvloupe::measure
