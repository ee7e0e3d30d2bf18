// Loads, at run time and only when a CUDA device is asked for, Torch's CUDA part and our plug-in
// with the CUDA kernels of the kvloupe operators.
#pragma once

#include "core/device/device_work.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace kvloupe::device {

struct CudaDevice {
  std::string name;
  std::string bus_id;  // on the PCI bus: "0000:41:00.0"
  std::uint64_t memory_bytes = 0;
};

// Makes the device ready. Throws Error{Input} with a sentence that says which piece is missing:
// the driver, a library that Torch's CUDA part needs, the plug-in, or the device.
CudaDevice open_cuda_device(int index);

// Bytes of it that this process can still have. Throws as above, and as Torch does.
std::uint64_t free_cuda_memory(int index);

// The devices that the driver lists, at least one, also those that cannot be used. Throws as above.
int num_cuda_devices();

// As count_device_work(); a CUDA device was opened.
std::optional<DeviceWork> count_cuda_work(const std::function<void()>& run);

}  // namespace kvloupe::device
