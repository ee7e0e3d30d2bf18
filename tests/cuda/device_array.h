// Numbers as a kernel in the emulator meets them: their end is the end of what may be touched.
#pragma once

#include "core/cuda/emulator/guarded_pages.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

namespace kvloupe::cuda::testing {

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& numbers) : DeviceArray(numbers.size()) {
    std::copy(numbers.begin(), numbers.end(), data());
  }
  // All bits 1: NaN in floating point.
  explicit DeviceArray(std::size_t count) : count_(count), pages_(count * sizeof(T)) {
    std::memset(static_cast<void*>(data()), 0xFF, count * sizeof(T));
  }

  T* data() const { return reinterpret_cast<T*>(pages_.last(count_ * sizeof(T), alignof(T))); }
  std::vector<T> copy() const { return {data(), data() + count_}; }

 private:
  std::size_t count_;
  emulator::GuardedPages pages_;
};

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), sizeof(T) * a.size()) == 0);
}

}  // namespace kvloupe::cuda::testing
