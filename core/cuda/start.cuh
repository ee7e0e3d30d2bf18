// How a kernel is launched.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {

// What is refused is said by its own error. CUDA would say it of the next kernel, too, whosever it is.
inline cudaError_t refused(cudaError_t status) {
  cudaGetLastError();
  return status;
}

// What a block may ask for: 99 KiB on some cards, 163 and 227 on others.
inline std::size_t most_shared_memory() {
  int device = 0, bytes = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) !=
          cudaSuccess)
    return 48 << 10;
  return static_cast<std::size_t>(bytes);
}

template <typename Kernel, typename... Arguments>
cudaError_t start(Kernel kernel, dim3 grid, unsigned threads, std::size_t shared_bytes,
                  cudaStream_t stream, const Arguments&... arguments) {
  // More than 48 KiB of shared memory a block must be asked for.
  if (shared_bytes > (48 << 10)) {
    const cudaError_t status = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
    if (status != cudaSuccess) return refused(status);
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, arguments...);
  return status == cudaSuccess ? status : refused(status);
}

}  // namespace kvloupe::cuda
