// What the program asks of the plug-in on a machine of three GPUs, of which only the second works.
#include "core/device/cuda_plugin_api.h"

#include <cstdio>

extern "C" __attribute__((visibility("default"))) int kvloupe_describe_cuda_device_2(
    int index, kvloupe::cuda::DeviceFacts* facts) {
  *facts = {};
  facts->count = 3;
  const bool works = index == 1;
  std::snprintf(facts->text, sizeof(facts->text), "%s",
                works            ? "Card B"
                : index < 3      ? "uncorrectable ECC error encountered"
                                 : "this machine has 3 CUDA devices");
  if (works) facts->memory_bytes = 80ULL << 30;
  return works ? 0 : 1;
}
