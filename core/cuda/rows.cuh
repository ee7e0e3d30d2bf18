// Rows of numbers of any type: where they can be read many at a time, how they come to shared memory,
// and what they are in fp32.
#pragma once

#include "core/cuda/tensor_core.cuh"

#include <cstdint>
#include <type_traits>

#include <cuda_pipeline_primitives.h>
#include <cuda_runtime_api.h>

namespace kvloupe::cuda {

// 16 bytes more than are used: rows below each other begin in different banks.
template <typename T, int kDim>
struct alignas(16) Row {
  T values[kDim + 16 / sizeof(T)];
};

// Whether rows of the matrix can be read so many numbers at a time, 16 bytes unless said otherwise.
template <typename T, int kNumbers = 16 / sizeof(T)>
bool is_aligned(const void* matrix, std::int64_t head_stride, int head_dim) {
  return head_dim % kNumbers == 0 && head_stride % kNumbers == 0 &&
         reinterpret_cast<std::uintptr_t>(matrix) % (kNumbers * sizeof(T)) == 0;
}

// Numbers of four bytes alone are copied asynchronously.
template <typename T>
__device__ void copy_number(T* to, const T* from) {
  if constexpr (sizeof(T) == 4)
    __pipeline_memcpy_async(to, from, sizeof(T));
  else
    *to = *from;
}

__device__ inline float widened(float number) { return number; }

// The number of an fp32 one, rounded where T is narrower.
template <typename T>
__device__ inline T number_of(float value) {
  if constexpr (std::is_same_v<T, float>)
    return value;
  else
    return {static_cast<std::uint16_t>(pack<T>(value, 0))};
}

// Numbers that lie together, read at once: aligned to the bytes of all.
template <typename T, int kNumbers>
__device__ void load_widened(const T* from, float (&values)[kNumbers]) {
  if constexpr (kNumbers == 1) {
    values[0] = widened(*from);
  } else if constexpr (std::is_same_v<T, float>) {
    static_assert(kNumbers == 4);
    const float4 all = *reinterpret_cast<const float4*>(from);
    values[0] = all.x, values[1] = all.y, values[2] = all.z, values[3] = all.w;
  } else if constexpr (kNumbers == 4) {
    const uint2 words = *reinterpret_cast<const uint2*>(from);
    unpack<T>(words.x, values[0], values[1]);
    unpack<T>(words.y, values[2], values[3]);
  } else {
    static_assert(kNumbers == 8);
    const uint4 words = *reinterpret_cast<const uint4*>(from);
    unpack<T>(words.x, values[0], values[1]);
    unpack<T>(words.y, values[2], values[3]);
    unpack<T>(words.z, values[4], values[5]);
    unpack<T>(words.w, values[6], values[7]);
  }
}

}  // namespace kvloupe::cuda
