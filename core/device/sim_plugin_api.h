// What the program asks of the plug-in that has the device `sim`, by name once it is loaded. Everything else
// goes through Torch's dispatcher.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvloupe::sim {

// Since the program started; DeviceWork of core/device/device_work.h says what counts.
struct Work {
  std::int64_t launches = 0, host_waits = 0;
};

using RegisterDevice = void (*)();         // as register_device() of core/cuda/sim/sim_device.h
using AllocatedBytes = std::size_t (*)();  // as allocated_bytes()
using CountWork = void (*)(Work*);         // as work()
inline constexpr const char* kRegisterDeviceName = "kvloupe_register_sim_1";
inline constexpr const char* kAllocatedBytesName = "kvloupe_sim_allocated_bytes_1";
inline constexpr const char* kCountWorkName = "kvloupe_sim_work_1";

}  // namespace kvloupe::sim
