// What the lanes of a warp do on tensor cores (sm_80 and later): bring matrices of 16-bit numbers to
// their registers and multiply them; and what 16-bit numbers are in fp32. In one place, since PTX is what
// no other compiler reads; by the host's compiler the lanes of the emulator do the same
// (emulator/tensor_core.h). All 32 lanes come.
//
// With g = lane / 4 and t = lane % 4, a register has two neighbouring numbers of a matrix of 8 x 8:
//   m[g][2 t] in its lower half, m[g][2 t + 1] in its upper one.
#pragma once

#include "core/cuda/number_types.h"

#include <cstdint>
#include <type_traits>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {

// Of four matrices of 8 x 8.
struct Matrices {
  unsigned of[4];
};

}  // namespace kvloupe::cuda

#ifdef __CUDACC__

namespace kvloupe::cuda {

// Rounded to the nearest, ties to the even one.
template <typename T>
__device__ inline unsigned pack(float lower, float upper) {
  unsigned both;
  if constexpr (std::is_same_v<T, Half>)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(upper), "f"(lower));
  else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(upper), "f"(lower));
  return both;
}

// In fp32, where every number of 16 bits has its place.
__device__ inline float widened(Half number) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(number.bits));
  return value;
}
__device__ inline float widened(BFloat16 number) {
  return __uint_as_float(static_cast<unsigned>(number.bits) << 16);
}

// The two that pack() put together.
template <typename T>
__device__ inline void unpack(unsigned both, float& lower, float& upper) {
  if constexpr (std::is_same_v<T, Half>) {
    Half low, high;
    asm("mov.b32 {%0, %1}, %2;" : "=h"(low.bits), "=h"(high.bits) : "r"(both));
    lower = widened(low);
    upper = widened(high);
  } else {
    lower = __uint_as_float(both << 16);
    upper = __uint_as_float(both & 0xFFFF0000U);
  }
}

// Lanes 8 i .. 8 i + 7 name the rows of matrix i: 16 bytes of shared memory each, at a multiple of 16.
__device__ inline Matrices load_matrices(const void* row) {
  Matrices m;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m.of[0]), "=r"(m.of[1]), "=r"(m.of[2]), "=r"(m.of[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
  return m;
}

// The same, each matrix transposed.
__device__ inline Matrices load_transposed(const void* row) {
  Matrices m;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m.of[0]), "=r"(m.of[1]), "=r"(m.of[2]), "=r"(m.of[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
  return m;
}

// c += a b in fp32, for a [16, 16] and b [16, 8] of T. a: its quarters [g][..], [g + 8][..],
// [g][8 + ..], [g + 8][8 + ..]; b transposed: of its rows 0 .. 7 and 8 .. 15; c: [g][2 t], [g][2 t + 1],
// [g + 8][2 t], [g + 8][2 t + 1].
template <typename T>
__device__ inline void multiply_add(const Matrices& a, unsigned b0, unsigned b1, float (&c)[4]) {
  if constexpr (std::is_same_v<T, Half>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.of[0]), "r"(a.of[1]), "r"(a.of[2]), "r"(a.of[3]), "r"(b0), "r"(b1));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.of[0]), "r"(a.of[1]), "r"(a.of[2]), "r"(a.of[3]), "r"(b0), "r"(b1));
}

}  // namespace kvloupe::cuda

#else
#include "core/cuda/emulator/tensor_core.h"
#endif
