#include "core/device/device.h"

#include "core/base/error.h"
#include "core/base/seconds_since.h"
#include "core/base/units.h"
#include "core/device/cuda_plugin.h"
#include "core/device/scalar_type.h"
#include "core/device/sim_plugin.h"
#include "core/device/threads.h"
#include "core/device/torch_device.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <vector>

#include <unistd.h>

namespace kvloupe::device {
namespace {

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos && colon + 2 < line.size()) return line.substr(colon + 2);
  }
  return "unknown processor";
}

// What oneDNN says of this processor, through Torch's dispatcher.
bool answers_yes(const char* question) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(question, "").typed<bool()>().call();
}

// Sums the words so that no read can be left out; the compiler vectorises it.
std::uint64_t sum_of(const std::uint64_t* words, std::int64_t count) {
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += words[i];
  return sum;
}

std::uint64_t memory_of_machine() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// Products of fp32 too, which an environment variable may turn into TF32 for Torch, and partial sums of products of
// bf16 and fp16, which cuBLAS may round to the type unless told.
void sum_in_fp32() {
  at::globalContext().setFloat32MatmulPrecision("highest");
  at::globalContext().setAllowFP16ReductionCuBLAS(false);
  at::globalContext().setAllowBF16ReductionCuBLAS(false);
}

}  // namespace

DeviceId parse_device(const std::string& text) {
  if (text == kCpu) return {};
  if (text == "sim") return {DeviceKind::Sim, 0};
  if (text == "cuda") return {DeviceKind::Cuda, 0};
  if (text.starts_with("cuda:")) {
    const auto index = parse_int(text.substr(5));
    if (index && *index >= 0 && *index < 1024) return {DeviceKind::Cuda, static_cast<int>(*index)};
  }
  throw usage_error(fmt::format("'{}' is not a device", text), "devices are cpu, cuda:N and sim",
                    "use --device cpu");
}

DeviceInfo open_device(const std::string& text) {
  const DeviceId device = parse_device(text);
  switch (device.kind) {
    case DeviceKind::Cpu: break;
    case DeviceKind::Cuda:
      return {fmt::format("cuda:{}", device.index), open_cuda_device(device.index).name, 0,
              DeviceKind::Cuda};
    case DeviceKind::Sim:
      open_sim();
      return {"sim", "the operators of a GPU in host memory", num_threads(), DeviceKind::Sim};
  }
  return {kCpu, cpu_name(), num_threads()};
}

c10::Device torch_device(const std::string& text) {
  const DeviceId device = parse_device(text);
  open_device(text);
  switch (device.kind) {
    case DeviceKind::Cpu: break;
    case DeviceKind::Cuda:
      sum_in_fp32();
      return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device.index)};
    case DeviceKind::Sim: return {c10::DeviceType::PrivateUse1, 0};
  }
  return {c10::DeviceType::CPU};
}

void wait_for(c10::Device device) {
  // The others are done when a call returns.
  if (!device.is_cuda()) return;
  c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
}

std::uint64_t memory_bytes(c10::Device device) {
  return device.is_cuda() ? open_cuda_device(device.index()).memory_bytes : memory_of_machine();
}

std::vector<ListedDevice> list_devices() {
  const std::uint64_t memory = memory_of_machine();
  std::vector<ListedDevice> devices;
  devices.push_back({open_device(kCpu), "", memory});
  // One that fails says so and hides none of the others.
  const auto list = [&](const DeviceInfo& if_it_fails, auto&& look) {
    try {
      look();
    } catch (const Error& error) {
      devices.push_back({if_it_fails, error.why(), 0});
    }
  };
  list({"sim", "the operators of a GPU in host memory", 0, DeviceKind::Sim}, [&] {
    devices.push_back({open_device("sim"), "", memory});
  });
  const DeviceInfo no_cuda{"cuda", "NVIDIA CUDA", 0, DeviceKind::Cuda};
  list(no_cuda, [&] {
    const int count = num_cuda_devices();
    for (int i = 0; i < count; ++i) {
      DeviceInfo listed = no_cuda;
      listed.id = fmt::format("cuda:{}", i);
      list(listed, [&] {
        const CudaDevice device = open_cuda_device(i);
        listed.name = device.name;
        devices.push_back({listed, "", device.memory_bytes});
      });
    }
  });
  return devices;
}

double measure_read_bandwidth() {
  constexpr std::int64_t kWords = (256LL << 20) / sizeof(std::uint64_t);
  constexpr int kSweeps = 6;
  std::vector<std::uint64_t> words(kWords, 1);
  std::atomic<std::uint64_t> total = 0;
  double best = 0;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    const auto begin = std::chrono::steady_clock::now();
    at::parallel_for(0, kWords, kWords / (4 * num_threads()), [&](std::int64_t a, std::int64_t b) {
      total += sum_of(words.data() + a, b - a);
    });
    best =
        std::max(best, static_cast<double>(kWords * sizeof(std::uint64_t)) / seconds_since(begin));
  }
  KVLOUPE_CHECK(total == static_cast<std::uint64_t>(kSweeps) * kWords);
  return best;
}

bool multiplies(ComputeType type) {
  switch (type) {
    case ComputeType::Fp32: return true;
    case ComputeType::Bf16: {
      static const bool bf16 = answers_yes("mkldnn::_is_mkldnn_bf16_supported");
      return bf16;
    }
    case ComputeType::Fp16: {
      static const bool fp16 = answers_yes("mkldnn::_is_mkldnn_fp16_supported");
      return fp16;
    }
  }
  return false;
}

double measure_peak_flops(ComputeType type) {
  constexpr std::int64_t kSize = 2048;
  constexpr int kProducts = 8;
  const at::ScalarType scalar = scalar_type(type);
  const at::Tensor a = at::ones({kSize, kSize}, scalar), b = at::ones({kSize, kSize}, scalar);
  at::Tensor product = at::empty({kSize, kSize}, scalar);
  double best = 0;
  for (int i = 0; i < kProducts; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    at::mm_out(product, a, b);
    best = std::max(best, 2.0 * kSize * kSize * kSize / seconds_since(begin));
  }
  return best;
}

double available_memory(const std::string& device) {
  if (const DeviceId id = parse_device(device); id.kind == DeviceKind::Cuda)
    return static_cast<double>(free_cuda_memory(id.index));
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name; file.ignore(256, '\n')) {
    double kibibytes = 0;
    if (name == "MemAvailable:" && file >> kibibytes) return 1024 * kibibytes;
  }
  throw input_error("the free memory is unknown", "/proc/meminfo has no line MemAvailable",
                    "run this on a Linux of 2014 or later, with /proc mounted");
}

}  // namespace kvloupe::device
