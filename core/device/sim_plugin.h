// Loads, when the device `sim` is asked for, the plug-in that has it: core/cuda/sim, with our CUDA kernels
// in the emulator.
#pragma once

#include "core/device/device_work.h"

#include <cstddef>

namespace kvloupe::device {

// Makes "sim:0" a device of Torch. Any number of times, from any thread. Throws Error{Input} where the
// plug-in is missing or does not load.
void open_sim();

// Memory of `sim` that is taken, in bytes. Opens it.
std::size_t sim_allocated_bytes();

// What was asked of `sim` since the program started. Opens it.
DeviceWork sim_work();

}  // namespace kvloupe::device
