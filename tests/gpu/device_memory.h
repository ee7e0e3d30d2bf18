// Memory and times of a GPU for the kit; by the host's compiler memory of the host, and no times.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

namespace kvloupe::gpu {

// For a profiler, which repeats every launch itself: all is launched once, and no time is right.
inline bool is_profiled = false;

#ifdef __CUDACC__

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "error: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

// Begin as bits that are all 1: no numbers, in floating point.
template <typename T>
class DeviceNumbers {
 public:
  explicit DeviceNumbers(std::size_t count) : count_(count) {
    check(cudaMalloc(&data_, std::max<std::size_t>(count, 1) * sizeof(T)), "cudaMalloc");
    check(cudaMemset(data_, 0xFF, count * sizeof(T)), "cudaMemset");
  }
  explicit DeviceNumbers(const std::vector<T>& host) : DeviceNumbers(host.size()) {
    check(cudaMemcpy(data_, host.data(), sizeof(T) * count_, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~DeviceNumbers() { cudaFree(data_); }
  DeviceNumbers(const DeviceNumbers&) = delete;
  DeviceNumbers& operator=(const DeviceNumbers&) = delete;
  T* data() const { return data_; }
  std::vector<T> copy() const {
    std::vector<T> host(count_);
    check(cudaMemcpy(host.data(), data_, sizeof(T) * count_, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return host;
  }

 private:
  std::size_t count_;
  T* data_ = nullptr;
};

inline std::string device_name() {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  return properties.name;
}

// Median of the times of `rounds` launches, each after what the L2 cache held was overwritten.
template <typename Launch>
double median_ms(const Launch& launch, int rounds) {
  if (is_profiled) {
    check(launch(), "launch");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return 1;
  }
  const DeviceNumbers<float> flush(64U << 20);
  cudaEvent_t begin{}, end{};
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<float> times;
  for (int round = 0; round <= rounds; ++round) {
    check(cudaMemset(flush.data(), round, std::size_t{256} << 20), "cudaMemset");
    check(cudaEventRecord(begin), "cudaEventRecord");
    check(launch(), "launch");
    check(cudaEventRecord(end), "cudaEventRecord");
    check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    if (round > 0) times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// What moving so many bytes takes at the least here: a copy that reads half of them and writes half.
inline double floor_ms(std::size_t bytes) {
  const DeviceNumbers<char> from(bytes / 2), to(bytes / 2);
  return median_ms(
      [&] { return cudaMemcpyAsync(to.data(), from.data(), bytes / 2, cudaMemcpyDeviceToDevice); },
      20);
}

#else

template <typename T>
class DeviceNumbers {
 public:
  explicit DeviceNumbers(std::size_t count) : numbers_(count) {
    if (count > 0) std::memset(static_cast<void*>(numbers_.data()), 0xFF, count * sizeof(T));
  }
  explicit DeviceNumbers(std::vector<T> host) : numbers_(std::move(host)) {}
  T* data() const { return const_cast<T*>(numbers_.data()); }
  std::vector<T> copy() const { return numbers_; }

 private:
  std::vector<T> numbers_;
};

inline std::string device_name() { return "emulator"; }

#endif

}  // namespace kvloupe::gpu
