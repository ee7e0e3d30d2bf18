// What a GPU's driver says of its clocks, power and heat: a time means little without them. By the
// driver's management library (NVML, libnvidia-ml.so.1), which is opened on first use.
#pragma once

#include <optional>

namespace kvloupe::device {

struct GpuState {
  int sm_mhz = 0, memory_mhz = 0;
  // Not every GPU tells these: some of laptops, and virtual ones, do not.
  std::optional<double> power_w = {};
  std::optional<int> temperature_c = {};
  // Heat or the power supply hold the clocks down. The board's own power limit does not count: a GPU
  // at work stands there, and the clocks tell it.
  bool throttled = false;
};

// Of the CUDA device of that number. Nothing where the library is missing, or does not tell clocks and what holds
// them down; throws as open_cuda_device().
std::optional<GpuState> gpu_state(int index);

}  // namespace kvloupe::device
