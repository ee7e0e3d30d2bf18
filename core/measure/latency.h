// Live latency of a method's parts against dense attention, on the stored Q, K and V of one cell.
#pragma once

#include "core/base/cancel.h"
#include "core/device/device.h"
#include "core/measure/latency_report.h"
#include "core/selection/spec/method_spec.h"
#include "core/session/session.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace kvloupe::measure {

// Whether the method multiplies only what it uses by its definition there, on a device whose times mean
// something. Not where each query uses lanes of its own and no kernel skips the others
// (generic_attention_lanes.cpp).
bool is_executed(const selection::MethodSpec& spec, device::DeviceKind kind);

struct LatencyOptions {
  int repetitions = 15;
  int warm_up = 2;
  // The cell's queries after so many past keys: its own past, cut or repeated (cell_source.h).
  std::optional<std::int64_t> past_len = {};
  std::string device = device::kDefault;  // as device::open_device() takes it
};

// Alternates method and dense. `on_sample` sees the report after every round. Throws Error{Input}:
// no such chunk, or the trace cannot serve the method.
LatencyReport measure_latency(const session::TraceSession& session,
                              const selection::MethodSpec& spec, int layer, int chunk,
                              const LatencyOptions& options, const WorkContext& context,
                              const std::function<void(const LatencyReport&)>& on_sample);

}  // namespace kvloupe::measure
