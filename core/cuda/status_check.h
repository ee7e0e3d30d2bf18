// What is thrown where a call of CUDA failed.
#pragma once

#include <c10/util/Exception.h>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {

// A GPU without memory, or that failed, perhaps in a kernel before this one, is told in Torch's words, by which
// core/base/foreign_error.cpp knows it. What only a wrong call of ours brings about is told as a bug.
inline void check(cudaError_t status, const char* name) {
  if (status == cudaSuccess) return;
  const bool is_bug = status == cudaErrorInvalidValue || status == cudaErrorInvalidConfiguration;
  TORCH_CHECK(status != cudaErrorMemoryAllocation, "CUDA out of memory (", name, ")");
  TORCH_CHECK(is_bug, "CUDA error: ", cudaGetErrorString(status), " (", name, ")");
  TORCH_CHECK(false, name, ": ", cudaGetErrorString(status));
}

}  // namespace kvloupe::cuda
