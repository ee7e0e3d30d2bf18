#include "core/device/cuda_plugin.h"

#include "core/base/error.h"
#include "core/device/cuda_plugin_api.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>

#include <dlfcn.h>

namespace kvloupe::device {
namespace {

namespace fs = std::filesystem;
constexpr const char* kUseCpu = "or use --device cpu";

std::string loader_message() {
  const char* message = ::dlerror();
  return message == nullptr ? "the loader gave no reason" : message;
}

// Opened for good: Torch's registrations cannot be taken back.
void* open_library(const std::string& name, int flags) {
  return ::dlopen(name.c_str(), RTLD_NOW | flags);
}

// KVLOUPE_CUDA_PLUGIN, or ../lib beside the program's folder.
fs::path plugin_path() {
  if (const char* path = std::getenv("KVLOUPE_CUDA_PLUGIN"); path != nullptr && *path != '\0')
    return path;
  std::error_code code;
  const fs::path program = fs::read_symlink("/proc/self/exe", code);
  return program.parent_path().parent_path() / "lib" / "libkvloupe_cuda.so";
}

cuda::DescribeDevice load_plugin() {
  const std::string what = "the CUDA device cannot be used";
  if (open_library("libcuda.so.1", RTLD_GLOBAL) == nullptr) {
    throw input_error(what, "this machine has no NVIDIA driver (libcuda.so.1 was not found)",
                      fmt::format("install the driver {}", kUseCpu));
  }
  if (open_library("libtorch_cuda.so", RTLD_GLOBAL) == nullptr) {
    throw input_error(
        what, fmt::format("a library of Torch's CUDA part is missing ({})", loader_message()),
        fmt::format("let the set-up fetch them with KVLOUPE_GPU=1 ./kvloupe.sh {}", kUseCpu));
  }
  const fs::path path = plugin_path();
  std::error_code code;
  if (!fs::exists(path, code)) {
    throw input_error(
        what, fmt::format("KVLoupe's CUDA plug-in was not built ({} is missing)", path.string()),
        fmt::format("install the CUDA toolkit (nvcc) and build again {}", kUseCpu));
  }
  void* plugin = open_library(path.string(), RTLD_LOCAL);
  if (plugin == nullptr) {
    throw input_error(what,
                      fmt::format("KVLoupe's CUDA plug-in does not load ({})", loader_message()),
                      fmt::format("build it again for this machine {}", kUseCpu));
  }
  auto* describe =
      reinterpret_cast<cuda::DescribeDevice>(::dlsym(plugin, cuda::kDescribeDeviceName));
  if (describe == nullptr) {
    throw input_error(what, fmt::format("{} is not a plug-in of this version", path.string()),
                      fmt::format("build it again {}", kUseCpu));
  }
  return describe;
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
                    fmt::format("choose a device that nvidia-smi lists {}", kUseCpu));
}

}  // namespace

CudaDevice open_cuda_device(int index) {
  cuda::DeviceFacts facts{};
  if (!describe(index, facts)) refuse(index, facts);
  return {facts.text, facts.bus_id, facts.memory_bytes};
}

int num_cuda_devices() {
  cuda::DeviceFacts facts{};
  if (!describe(0, facts) && facts.count == 0) refuse(0, facts);
  return facts.count;
}

}  // namespace kvloupe::device
