// Atomic operations by the names of CUDA. Threads change only at barriers, meetings of a warp and here:
// a plain addition where an atomic one is needed is not seen.
#pragma once

#include "core/cuda/emulator/emulator.h"

#include <algorithm>
#include <concepts>

// NOLINTBEGIN: the names are CUDA's.
template <typename T>
requires std::same_as<T, int> || std::same_as<T, unsigned> || std::same_as<T, unsigned long long> ||
    std::same_as<T, float>
        T atomicAdd(T* address, T value) {
  kvloupe::cuda::emulator::before_atomic();
  const T old = *address;
  *address = old + value;
  return old;
}

template <typename T>
requires std::same_as<T, int> || std::same_as<T, unsigned> || std::same_as<T, unsigned long long> T
atomicMax(T* address, T value) {
  kvloupe::cuda::emulator::before_atomic();
  const T old = *address;
  *address = std::max(old, value);
  return old;
}
// NOLINTEND
