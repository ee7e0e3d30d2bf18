// Numbers of any type as fp32 in device code, which holds all of them exactly. PTX in one place, as in
// tensor_core.cuh; by the host's compiler the conversions of number_types.h.
#pragma once

#include "core/cuda/number_types.h"

#include <bit>
#include <cstdint>
#include <type_traits>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {

// The two numbers of T in a word.
template <typename T>
__device__ inline void widen(unsigned word, float& lower, float& upper) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    lower = std::bit_cast<float>(word << 16);
    upper = std::bit_cast<float>(word & 0xFFFF0000U);
  } else {
#ifdef __CUDACC__
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, "
        "high; }"
        : "=f"(lower), "=f"(upper)
        : "r"(word));
#else
    lower = value_of(Half{static_cast<std::uint16_t>(word)});
    upper = value_of(Half{static_cast<std::uint16_t>(word >> 16)});
#endif
  }
}

// 16 bytes of numbers, from a multiple of 16.
template <typename T>
__device__ inline void load_wide(const T* from, float (&to)[16 / sizeof(T)]) {
  const float4 four = *reinterpret_cast<const float4*>(from);
  const float words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == sizeof(float))
      to[i] = words[i];
    else
      widen<T>(__float_as_uint(words[i]), to[2 * i], to[2 * i + 1]);
  }
}

}  // namespace kvloupe::cuda
