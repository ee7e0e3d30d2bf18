// What the program asks of the plug-in by name once it is loaded. Everything else goes through
// Torch's dispatcher.
#pragma once

#include <cstdint>

namespace kvloupe::cuda {

struct DeviceFacts {
  char text[256];              // its name; or why it cannot be used
  char bus_id[32];             // "0000:41:00.0"
  std::uint64_t memory_bytes;  // 0 where it cannot be used
  int count;                   // devices that the driver lists
};

// Returns 0 where the device can be used, else 1.
using DescribeDevice = int (*)(int index, DeviceFacts* facts);
inline constexpr const char* kDescribeDeviceName = "kvloupe_describe_cuda_device_3";

// Bytes that this process can still have of a device that can be used. Throws as Torch does.
using FreeMemory = std::uint64_t (*)(int index);
inline constexpr const char* kFreeMemoryName = "kvloupe_free_cuda_memory_1";

// Calls of the driver while `run(context)` runs, counted by CUPTI. Returns 0; where it cannot be had 1, and
// `run` ran all the same.
struct Work {
  std::int64_t launches, host_waits;
};
using CountWork = int (*)(void (*run)(void* context), void* context, Work* work);
inline constexpr const char* kCountWorkName = "kvloupe_count_cuda_work_1";

}  // namespace kvloupe::cuda
