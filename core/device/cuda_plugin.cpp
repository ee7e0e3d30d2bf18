#include "core/device/cuda_plugin.h"

#include "core/base/error.h"
#include "core/device/cuda_plugin_api.h"
#include "core/device/plugin.h"

#include <fmt/format.h>

#include <exception>
#include <mutex>
#include <string>

#include <dlfcn.h>

namespace kvloupe::device {
namespace {

constexpr Plugin kPlugin{"the CUDA device", "CUDA plug-in", "libkvloupe_cuda.so",
                         "KVLOUPE_CUDA_PLUGIN",
                         "install the toolkit of CUDA 13 (nvcc) and build again"};

// Opened for good, its names at hand for the plug-in.
bool open_library(const char* name) { return ::dlopen(name, RTLD_NOW | RTLD_GLOBAL) != nullptr; }

cuda::DescribeDevice load_plugin() {
  const std::string what = "the CUDA device cannot be used";
  if (!open_library("libcuda.so.1")) {
    throw input_error(what, "this machine has no NVIDIA driver (libcuda.so.1 was not found)",
                      fmt::format("install the driver {}", kUseCpu));
  }
  if (!open_library("libtorch_cuda.so")) {
    throw input_error(
        what, fmt::format("a library of Torch's CUDA part is missing ({})", loader_message()),
        fmt::format("let the set-up fetch them with KVLOUPE_GPU=1 ./kvloupe.sh {}", kUseCpu));
  }
  return reinterpret_cast<cuda::DescribeDevice>(load_symbol(kPlugin, cuda::kDescribeDeviceName));
}

// Whether the device can be used.
bool describe(int index, cuda::DeviceFacts& facts) {
  static std::mutex mutex;
  static cuda::DescribeDevice plugin = nullptr;
  const std::lock_guard lock(mutex);
  if (plugin == nullptr) plugin = load_plugin();
  return plugin(index, &facts) == 0;
}

[[noreturn]] void refuse(int index, const cuda::DeviceFacts& facts) {
  throw input_error(fmt::format("cuda:{} cannot be used", index), facts.text,
                    fmt::format("choose another device {}", kUseCpu));
}

}  // namespace

CudaDevice open_cuda_device(int index) {
  cuda::DeviceFacts facts{};
  if (!describe(index, facts)) refuse(index, facts);
  return {facts.text, facts.bus_id, facts.memory_bytes};
}

std::uint64_t free_cuda_memory(int index) {
  open_cuda_device(index);
  static const auto ask =
      reinterpret_cast<cuda::FreeMemory>(load_symbol(kPlugin, cuda::kFreeMemoryName));
  return ask(index);
}

int num_cuda_devices() {
  cuda::DeviceFacts facts{};
  if (!describe(0, facts) && facts.count == 0) refuse(0, facts);
  return facts.count;
}

std::optional<DeviceWork> count_cuda_work(const std::function<void()>& run) {
  static const auto count =
      reinterpret_cast<cuda::CountWork>(load_symbol(kPlugin, cuda::kCountWorkName));
  struct Call {
    const std::function<void()>& run;
    std::exception_ptr error;  // does not pass through the plug-in's caller
  } call{run, nullptr};
  cuda::Work work{};
  const int failed = count(
      [](void* context) {
        auto& one = *static_cast<Call*>(context);
        try {
          one.run();
        } catch (...) {
          one.error = std::current_exception();
        }
      },
      &call, &work);
  if (call.error) std::rethrow_exception(call.error);
  if (failed != 0) return std::nullopt;
  return DeviceWork{work.launches, work.host_waits};
}

}  // namespace kvloupe::device
