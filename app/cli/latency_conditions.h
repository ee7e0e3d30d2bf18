// How the commands print under what conditions something was timed, and what it was compared with.
#pragma once

#include "app/cli/json_text.h"
#include "core/base/printable.h"
#include "core/device/device.h"
#include "core/device/device_work.h"
#include "core/measure/latency_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::cli {

// [{"form": "sdpa gqa", "why": "the GPU has not enough memory"}]
inline nlohmann::ordered_json left_out_json(const std::vector<measure::DenseLeftOut>& left_out) {
  auto json = nlohmann::ordered_json::array();
  for (const measure::DenseLeftOut& one : left_out)
    json.push_back({{"form", one.form}, {"why", one.why}});
  return json;
}

// null where the GPU did not tell.
inline nlohmann::ordered_json gpu_json(const measure::LatencyReport& r) {
  if (!r.gpu) return nullptr;
  return {{"sm_mhz", {r.gpu->least_sm_mhz, r.gpu->largest_sm_mhz}},
          {"memory_mhz", {r.gpu->least_memory_mhz, r.gpu->largest_memory_mhz}},
          {"power_w", or_null(r.gpu->most_power_w)},
          {"temperature_c", or_null(r.gpu->most_celsius)},
          {"throttled", r.gpu->throttled}};
}

// Of each part: {"select": 2, "gather": 1, "attend": 1}; null where it cannot be counted.
inline nlohmann::ordered_json counts_json(const measure::LatencyReport& r,
                                          std::int64_t device::DeviceWork::*number) {
  if (!r.counts) return nullptr;
  return {{"select", r.counts->select.*number},
          {"gather", r.counts->gather.*number},
          {"attend", r.counts->attend.*number}};
}

// What a row has beside the cells of its table.
inline void add_conditions(const measure::LatencyReport& r, device::DeviceKind kind,
                           nlohmann::ordered_json& row) {
  row["dense_left_out"] = left_out_json(r.dense_left_out);
  if (r.gpu || r.device.starts_with("cuda")) row["gpu"] = gpu_json(r);
  if (kind == device::DeviceKind::Cpu) return;
  row["host_waits"] = counts_json(r, &device::DeviceWork::host_waits);
  row["launches"] = counts_json(r, &device::DeviceWork::launches);
}

// What the host asks of a GPU in one cell; empty on the CPU.
inline std::string counts_text(const measure::LatencyReport& r) {
  if (!r.counts)
    return r.device.starts_with("cuda")
               ? "launches and waits were not counted: NVIDIA's CUPTI is missing or refuses\n"
               : "";
  const auto part = [](const char* name, const device::DeviceWork& work) {
    return fmt::format("{} {} launches and {} waits", name, work.launches, work.host_waits);
  };
  return fmt::format("{}, layer {}: {}, {}, {}\n", printable(r.method), r.layer,
                     part("select", r.counts->select), part("gather", r.counts->gather),
                     part("attend", r.counts->attend));
}

}  // namespace kvloupe::cli
