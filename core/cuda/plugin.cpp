// The plug-in: binds the CUDA kernels to the operators that core/attention declares. Built as a
// shared library of its own, loaded after libtorch_cuda (core/device/cuda_plugin.cpp). Operators without
// a kernel run in their generic form, which the program has.
#include "core/cuda/register_attention.h"
#include "core/device/cuda_plugin_api.h"

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <cstdio>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {
namespace {

cudaError_t run_on_stream(const at::Tensor& like, const Launches& launches) {
  const c10::cuda::CUDAGuard guard(like.device());
  return launches(c10::cuda::getCurrentCUDAStream(like.device().index()).stream());
}

}  // namespace
}  // namespace kvloupe::cuda

TORCH_LIBRARY_IMPL(kvloupe, CUDA, m) {
  kvloupe::cuda::register_attention<kvloupe::cuda::run_on_stream>(m);
}

extern "C" __attribute__((visibility("default"))) int kvloupe_describe_cuda_device_2(
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
  std::snprintf(facts->text, sizeof(facts->text), "%s",
                status == cudaSuccess ? properties.name : cudaGetErrorString(status));
  if (status != cudaSuccess) return 1;
  facts->memory_bytes = properties.totalGlobalMem;
  return 0;
}
