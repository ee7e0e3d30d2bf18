// How often the host starts work on a device and how often it waits for it: what stands between a method and
// its speed on a GPU, whatever the clock says.
#pragma once

#include "core/device/device.h"

#include <cstdint>
#include <functional>
#include <optional>

namespace kvloupe::device {

struct DeviceWork {
  // Kernels started. On `sim` our own kernels, each operator of Torch that ran (several kernels, of some, on a
  // GPU) and each copy from the device to itself.
  std::int64_t launches = 0;
  // Times that the host stood still until the device was done: copies between them, numbers read from a tensor,
  // results whose size the device decides.
  std::int64_t host_waits = 0;
};

// Of all that the process asks of the device while `run` runs. None for the CPU, and where a GPU's calls cannot
// be counted (libcupti is missing or refuses).
std::optional<DeviceWork> count_device_work(const DeviceInfo& device,
                                            const std::function<void()>& run);

}  // namespace kvloupe::device
