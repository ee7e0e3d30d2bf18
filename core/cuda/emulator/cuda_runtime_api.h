// What our kernels use of CUDA, for the emulator (emulator.h). Found in place of the toolkit's header of
// this name by the targets that emulate.
#pragma once

#include "core/cuda/emulator/emulator.h"

#include <cmath>

#define __device__
#define __global__ static
#define __launch_bounds__(threads)

// NOLINTBEGIN: the names are CUDA's.
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorInvalidConfiguration = 9 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
using cudaStream_t = void*;

inline const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
  }
  return "unknown error";
}

struct dim3 : kvloupe::cuda::emulator::Extent {
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : Extent{x_, y_, z_} {}
};

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

#define threadIdx (::kvloupe::cuda::emulator::thread_index())
#define blockIdx (::kvloupe::cuda::emulator::block_index())

inline void __syncthreads(unsigned line = __builtin_LINE()) {
  kvloupe::cuda::emulator::barrier(line);
}

template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, cudaFuncAttribute, int bytes) {
  return static_cast<std::size_t>(bytes) <= kvloupe::cuda::emulator::kMostSharedMemory
             ? cudaSuccess
             : cudaErrorInvalidValue;
}

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  const bool started = kvloupe::cuda::emulator::launch(
      config->gridDim, config->blockDim, config->dynamicSmemBytes, [&] { kernel(arguments...); });
  return started ? cudaSuccess : cudaErrorInvalidConfiguration;
}
// NOLINTEND
