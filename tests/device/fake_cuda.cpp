// What the program asks of the plug-in, and of NVML, on a machine of three GPUs, of which only the second
// works.
#include "core/device/cuda_plugin_api.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" __attribute__((visibility("default"))) int kvloupe_describe_cuda_device_3(
    int index, kvloupe::cuda::DeviceFacts* facts) {
  *facts = {};
  facts->count = 3;
  const bool works = index == 1;
  std::snprintf(facts->text, sizeof(facts->text), "%s",
                works       ? "Card B"
                : index < 3 ? "uncorrectable ECC error encountered"
                            : "this machine has 3 CUDA devices");
  if (!works) return 1;
  facts->memory_bytes = 80ULL << 30;
  std::snprintf(facts->bus_id, sizeof(facts->bus_id), "0000:41:00.0");
  return 0;
}

// Other programs have the rest.
extern "C" __attribute__((visibility("default"))) std::uint64_t kvloupe_free_cuda_memory_1(int) {
  return 12ULL << 30;
}

// NVML. KVLOUPE_FAKE_SLOWDOWNS says by what the clocks are held down, in its bits; where KVLOUPE_FAKE_SENSORS is set
// neither power nor temperature is told.
using Handle = struct nvmlDevice_st*;
constexpr int kNotSupported = 3;
static bool has_sensors() { return std::getenv("KVLOUPE_FAKE_SENSORS") == nullptr; }
extern "C" {
__attribute__((visibility("default"))) int nvmlInit_v2() { return 0; }
__attribute__((visibility("default"))) int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id,
                                                                            Handle* handle) {
  *handle = nullptr;
  return std::strcmp(bus_id, "0000:41:00.0") == 0 ? 0 : 6;
}
__attribute__((visibility("default"))) int nvmlDeviceGetClockInfo(Handle, unsigned int clock,
                                                                  unsigned int* mhz) {
  *mhz = clock == 1 ? 1980 : clock == 2 ? 2619 : 0;
  return 0;
}
__attribute__((visibility("default"))) int nvmlDeviceGetPowerUsage(Handle, unsigned int* mw) {
  if (!has_sensors()) return kNotSupported;
  *mw = 345600;
  return 0;
}
__attribute__((visibility("default"))) int nvmlDeviceGetTemperature(Handle, unsigned int,
                                                                    unsigned int* celsius) {
  if (!has_sensors()) return kNotSupported;
  *celsius = 57;
  return 0;
}
__attribute__((visibility("default"))) int nvmlDeviceGetCurrentClocksThrottleReasons(
    Handle, unsigned long long* reasons) {
  const char* text = std::getenv("KVLOUPE_FAKE_SLOWDOWNS");
  *reasons = text == nullptr ? 0 : std::strtoull(text, nullptr, 16);
  return 0;
}
}
