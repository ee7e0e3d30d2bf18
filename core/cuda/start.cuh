// How a kernel is launched.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {

template <typename Kernel, typename... Arguments>
cudaError_t start(Kernel kernel, dim3 grid, unsigned threads, std::size_t shared_bytes,
                  cudaStream_t stream, const Arguments&... arguments) {
  // More than 48 KiB of shared memory a block must be asked for.
  if (shared_bytes > (48 << 10)) {
    const cudaError_t status = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
    if (status != cudaSuccess) return status;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace kvloupe::cuda
