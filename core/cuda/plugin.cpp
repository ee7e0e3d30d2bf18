// The plug-in: binds the CUDA kernels to the operators that core/attention and core/selection declare.
// Built as a shared library of its own, loaded after libtorch_cuda (core/device/cuda_plugin.cpp).
// Operators without a kernel here run in their generic form, which the program has.
#include "core/cuda/probability_bindings.h"
#include "core/cuda/register_attention.h"
#include "core/cuda/selection_bindings.h"
#include "core/cuda/status_check.h"
#include "core/device/cuda_plugin_api.h"

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {
namespace {

// What implement_selection() asks for.
class OnStream {
 public:
  explicit OnStream(c10::Device device) : guard_(device), index_(device.index()) {}
  cudaError_t run(const Launch& launch) const {
    return launch(c10::cuda::getCurrentCUDAStream(index_).stream());
  }

 private:
  c10::cuda::CUDAGuard guard_;
  c10::DeviceIndex index_;
};

cudaError_t run_on_stream(const at::Tensor& like, const Launches& launches) {
  return OnStream(like.device()).run(launches);
}

}  // namespace
}  // namespace kvloupe::cuda

TORCH_LIBRARY_IMPL(kvloupe, CUDA, m) {
  kvloupe::cuda::register_attention<kvloupe::cuda::run_on_stream>(m);
  kvloupe::cuda::implement_selection<kvloupe::cuda::OnStream>(m);
  kvloupe::cuda::implement_probabilities<kvloupe::cuda::OnStream>(m);
}

extern "C" __attribute__((visibility("default"))) int kvloupe_describe_cuda_device_3(
    int index, kvloupe::cuda::DeviceFacts* facts) {
  *facts = {};
  cudaDeviceProp properties{};
  cudaError_t status = cudaGetDeviceCount(&facts->count);
  if (status == cudaSuccess && index >= facts->count) {
    std::snprintf(facts->text, sizeof(facts->text), "this machine has %d CUDA device%s",
                  facts->count, facts->count == 1 ? "" : "s");
    return 1;
  }
  if (status == cudaSuccess) status = cudaGetDeviceProperties(&properties, index);
  if (status == cudaSuccess)
    status = cudaDeviceGetPCIBusId(facts->bus_id, sizeof(facts->bus_id), index);
  std::snprintf(facts->text, sizeof(facts->text), "%s",
                status == cudaSuccess ? properties.name : cudaGetErrorString(status));
  if (status != cudaSuccess) return 1;
  if (properties.major < 8) {
    std::snprintf(facts->text, sizeof(facts->text),
                  "its compute capability is %d.%d, and the kernels need 8.0 (Ampere) or later",
                  properties.major, properties.minor);
    return 1;
  }
  facts->memory_bytes = properties.totalGlobalMem;
  return 0;
}

extern "C" __attribute__((visibility("default"))) std::uint64_t kvloupe_free_cuda_memory_1(
    int index) {
  const auto device = static_cast<c10::DeviceIndex>(index);
  const c10::cuda::CUDAGuard guard(device);
  std::size_t free_bytes = 0, all_bytes = 0;
  kvloupe::cuda::check(cudaMemGetInfo(&free_bytes, &all_bytes), "cudaMemGetInfo");
  // What tensors gave back Torch keeps for the next ones.
  auto* const allocator = c10::cuda::CUDACachingAllocator::get();
  if (!allocator->initialized()) return free_bytes;
  const c10::CachingDeviceAllocator::DeviceStats stats = allocator->getDeviceStats(device);
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return free_bytes + static_cast<std::uint64_t>(stats.reserved_bytes[kAll].current -
                                                 stats.allocated_bytes[kAll].current);
}
