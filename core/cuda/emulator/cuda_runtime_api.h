// What our kernels use of CUDA, for the emulator (emulator.h). Found in place of the toolkit's header of
// this name by the targets that emulate.
#pragma once

#include "core/base/error.h"
#include "core/cuda/emulator/emulator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#define __device__
#define __global__ static
#define __forceinline__ inline
#define __launch_bounds__(...)

// NOLINTBEGIN: the names are CUDA's.
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorIllegalAddress = 700
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
using cudaStream_t = void*;

inline const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
  }
  return "unknown error";
}

inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
// Those of an A100, but for the shared memory that a test has set.
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMultiProcessorCount
               ? 108
               : static_cast<int>(kvloupe::cuda::emulator::most_shared_memory());
  return cudaSuccess;
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }

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

// No macros: members of the launch's configuration have these names.
template <auto kExtent>
struct EmulatedExtent {
  template <auto kMember>
  struct Member {
    operator unsigned() const { return kExtent().*kMember; }
  };
  Member<&kvloupe::cuda::emulator::Extent::x> x{};
  Member<&kvloupe::cuda::emulator::Extent::y> y{};
  Member<&kvloupe::cuda::emulator::Extent::z> z{};
};
inline constexpr EmulatedExtent<&kvloupe::cuda::emulator::block_extent> blockDim;
inline constexpr EmulatedExtent<&kvloupe::cuda::emulator::grid_extent> gridDim;

inline void __syncthreads(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
  kvloupe::cuda::emulator::barrier(kvloupe::cuda::emulator::site_of(file, line));
}

struct __attribute__((may_alias, aligned(16))) float4 {
  float x, y, z, w;
};
struct __attribute__((may_alias, aligned(8))) uint2 {
  unsigned x, y;
};
struct __attribute__((may_alias, aligned(16))) uint4 {
  unsigned x, y, z, w;
};
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
using std::max;
using std::min;
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __clzll(long long bits) {
  return std::countl_zero(static_cast<unsigned long long>(bits));
}

#include "core/cuda/emulator/atomics.h"
#include "core/cuda/emulator/warp.h"

template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, cudaFuncAttribute, int bytes) {
  return static_cast<std::size_t>(bytes) <= kvloupe::cuda::emulator::most_shared_memory()
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
