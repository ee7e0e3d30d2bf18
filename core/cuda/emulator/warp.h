// What the lanes of a warp do together, by the names of CUDA. Widths other than that of the warp are
// not emulated.
#pragma once

#include "core/base/error.h"
#include "core/cuda/emulator/emulator.h"

#include <cstdint>
#include <cstring>

namespace kvloupe::cuda::emulator {

// The value of lane `source` of those that meet here. A lane outside the mask has none.
template <typename T>
T value_of_lane(const Site& site, unsigned mask, const T& value, int source) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = warp_exchange(site, mask, {bits})[static_cast<std::size_t>(source)][0];
  KVLOUPE_CHECK((mask >> source & 1) != 0);
  T other;
  std::memcpy(&other, &bits, sizeof(T));
  return other;
}

}  // namespace kvloupe::cuda::emulator

// NOLINTBEGIN: the names are CUDA's.
inline void __syncwarp(unsigned mask = 0xFFFFFFFFU, const char* file = __builtin_FILE(),
                       unsigned line = __builtin_LINE()) {
  kvloupe::cuda::emulator::warp_barrier(kvloupe::cuda::emulator::site_of(file, line), mask);
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, const char* file = __builtin_FILE(),
              unsigned line = __builtin_LINE()) {
  using namespace kvloupe::cuda::emulator;
  return value_of_lane(site_of(file, line), mask, value, source % kWarpSize);
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, const char* file = __builtin_FILE(),
                  unsigned line = __builtin_LINE()) {
  using namespace kvloupe::cuda::emulator;
  return value_of_lane(site_of(file, line), mask, value, lane() ^ lane_mask);
}

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, const char* file = __builtin_FILE(),
                   unsigned line = __builtin_LINE()) {
  using namespace kvloupe::cuda::emulator;
  const int source = lane() + static_cast<int>(delta);
  return value_of_lane(site_of(file, line), mask, value, source < kWarpSize ? source : lane());
}

template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, const char* file = __builtin_FILE(),
                 unsigned line = __builtin_LINE()) {
  using namespace kvloupe::cuda::emulator;
  const int source = lane() - static_cast<int>(delta);
  return value_of_lane(site_of(file, line), mask, value, source >= 0 ? source : lane());
}

inline unsigned __ballot_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(),
                              unsigned line = __builtin_LINE()) {
  using namespace kvloupe::cuda::emulator;
  const WarpValues& all = warp_exchange(site_of(file, line), mask, {predicate != 0 ? 1U : 0U});
  unsigned bits = 0;
  for (unsigned i = 0; i < kWarpSize; ++i)
    if ((mask >> i & 1) != 0 && all[i][0] != 0) bits |= 1U << i;
  return bits;
}
// NOLINTEND
