// What a GPU's driver says of its clocks, power and heat: a time means little without them. By the
// driver's management library (NVML, libnvidia-ml.so.1), which is opened on first use.
#pragma once

#include <optional>

namespace kvloupe::device {

struct GpuState {
  int sm_mhz = 0, memory_mhz = 0;
  double power_w = 0;
  int temperature_c = 0;
  // Heat or the power supply hold the clocks down. The board's own power limit does not count: a GPU
  // at work stands there, and the clocks tell it.
  bool throttled = false;
};

// Of the CUDA device of that number. Nothing where the library is missing or does not answer; throws as
// open_cuda_device().
std::optional<GpuState> gpu_state(int index);

}  // namespace kvloupe::device
