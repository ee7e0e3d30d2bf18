// Live latency of a method's parts against dense attention, on the stored Q, K and V of one cell.
#pragma once

#include "core/base/cancel.h"
#include "core/selection/method_spec.h"
#include "core/session/session.h"

#include <functional>
#include <string>
#include <vector>

namespace kvloupe::measure {

struct LatencyStats {
  double median_ms = 0, q25_ms = 0, q75_ms = 0;
  int samples = 0;
};

struct LatencyReport {
  std::string method;  // canonical
  std::string device;  // "cpu, 2 threads", with its name
  std::string dtype;   // "fp32"
  int layer = 0, chunk = 0;
  std::int64_t past_len = 0, chunk_len = 0;
  LatencyStats select, gather, attend, total, dense;
  // Whole pages or blocks were selected: `gather` is the time of making their block tables, and
  // attention reads them where they lie. Else the selected KVs are copied together.
  bool paged = false;
  std::string dense_variant;  // which of the dense baselines was fastest
  int discarded = 0;  // samples thrown away because the machine was busy with our own threads
  bool finished = false;
};

struct LatencyOptions {
  int repetitions = 15;
  int warm_up = 2;
};

// Alternates method and dense. `on_sample` sees the report after every round.
LatencyReport measure_latency(const session::TraceSession& session,
                              const selection::MethodSpec& spec, int layer, int chunk,
                              const LatencyOptions& options, const WorkContext& context,
                              const std::function<void(const LatencyReport&)>& on_sample);

}  // namespace kvloupe::measure
