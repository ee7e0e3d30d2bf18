// What the program asks of the plug-in that has the device `sim`, by name once it is loaded. Everything else
// goes through Torch's dispatcher.
#pragma once

#include <cstddef>

namespace kvloupe::sim {

using RegisterDevice = void (*)();         // as register_device() of core/cuda/sim/sim_device.h
using AllocatedBytes = std::size_t (*)();  // as allocated_bytes()
inline constexpr const char* kRegisterDeviceName = "kvloupe_register_sim_1";
inline constexpr const char* kAllocatedBytesName = "kvloupe_sim_allocated_bytes_1";

}  // namespace kvloupe::sim
