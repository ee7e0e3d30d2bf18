// The attention benchmarks of the contract: quoka against dense attention of one chunk, on random
// inputs of shape S (24 query heads, 8 KV heads, head_dim 128, chunk 128, fp32).
#pragma once

#include "core/analysis/latency.h"
#include "core/base/cancel.h"

#include <cstdint>
#include <string>

namespace kvloupe::analysis {

struct AttentionBench {
  std::int64_t past_len = 0;
  std::string method;   // canonical
  LatencyStats sparse;  // selection and attention of the method
  LatencyStats select;  // its selection alone
  LatencyStats dense;   // the fastest of the dense variants
  std::string dense_variant;
  double key_bytes = 0;  // of the past and the chunk's keys, all KV heads
  int discarded = 0;

  double speed_up() const { return dense.median_ms / sparse.median_ms; }
};

AttentionBench bench_attention(std::int64_t past_len, int repetitions, const WorkContext& context);

}  // namespace kvloupe::analysis
