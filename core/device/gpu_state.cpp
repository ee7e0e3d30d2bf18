#include "core/device/gpu_state.h"

#include "core/device/cuda_plugin.h"

#include <dlfcn.h>

namespace kvloupe::device {
namespace {

// NVML's C interface, as nvml.h of driver 450 and later declares it; 0 is success.
using Handle = struct nvmlDevice_st*;
constexpr unsigned int kSmClock = 1, kMemoryClock = 2, kTemperatureOfGpu = 0;
constexpr unsigned long long kHwSlowdown = 0x08, kSwThermal = 0x20, kHwThermal = 0x40,
                             kPowerBrake = 0x80;

struct Nvml {
  int (*init)() = nullptr;
  int (*by_bus_id)(const char*, Handle*) = nullptr;
  int (*clock)(Handle, unsigned int, unsigned int*) = nullptr;
  int (*power_mw)(Handle, unsigned int*) = nullptr;
  int (*temperature)(Handle, unsigned int, unsigned int*) = nullptr;
  int (*slowdowns)(Handle, unsigned long long*) = nullptr;
  bool ready = false;

  Nvml() {
    void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    ready = find(library, "nvmlInit_v2", init) &&
            find(library, "nvmlDeviceGetHandleByPciBusId_v2", by_bus_id) &&
            find(library, "nvmlDeviceGetClockInfo", clock) &&
            find(library, "nvmlDeviceGetPowerUsage", power_mw) &&
            find(library, "nvmlDeviceGetTemperature", temperature) &&
            find(library, "nvmlDeviceGetCurrentClocksThrottleReasons", slowdowns) && init() == 0;
  }

  template <typename Function>
  static bool find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
  }
};

}  // namespace

std::optional<GpuState> gpu_state(int index) {
  static const Nvml nvml;
  std::optional<GpuState> state;
  if (!nvml.ready) return state;
  Handle handle = nullptr;
  unsigned int sm = 0, memory = 0, milliwatts = 0, celsius = 0;
  unsigned long long slowed_by = 0;
  // The two libraries may number the devices differently.
  const bool answered = nvml.by_bus_id(open_cuda_device(index).bus_id.c_str(), &handle) == 0 &&
                        nvml.clock(handle, kSmClock, &sm) == 0 &&
                        nvml.clock(handle, kMemoryClock, &memory) == 0 &&
                        nvml.slowdowns(handle, &slowed_by) == 0;
  if (!answered) return state;
  state.emplace();
  state->sm_mhz = static_cast<int>(sm);
  state->memory_mhz = static_cast<int>(memory);
  if (nvml.power_mw(handle, &milliwatts) == 0) state->power_w = milliwatts / 1000.0;
  if (nvml.temperature(handle, kTemperatureOfGpu, &celsius) == 0)
    state->temperature_c = static_cast<int>(celsius);
  state->throttled = (slowed_by & (kHwSlowdown | kSwThermal | kHwThermal | kPowerBrake)) != 0;
  return state;
}

}  // namespace kvloupe::device
