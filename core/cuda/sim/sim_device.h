// The device `sim`: memory of its own that host code cannot touch, operators of Torch by way of the
// CPU, our CUDA kernels in the emulator. What runs on it holds its tensors on the device as it must on a
// GPU: a pointer that the host reads ends the program at once. Slow; its times mean nothing.
#pragma once

#include "core/device/sim_plugin_api.h"

#include <cstddef>

namespace kvloupe::sim {

// Makes tensors on "sim:0" possible. Any number of times, from any thread.
void register_device();

// While one lives, device memory can be touched: around what runs on the device. May be nested.
class Access {
 public:
  Access();
  ~Access();
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;
};

// What was asked of the device since the program started.
Work work();

// Device memory that is taken, in bytes asked for.
std::size_t allocated_bytes();

}  // namespace kvloupe::sim
