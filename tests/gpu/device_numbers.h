// Numbers where kernels reach them, and times: on a GPU where nvcc compiles, else in the emulator, which
// has no times.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda::testing {

#ifdef __CUDACC__

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "error: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

template <typename T>
class DeviceNumbers {
 public:
  // All bits 1: NaN in floating point.
  explicit DeviceNumbers(std::size_t count) : count_(count) {
    check(cudaMalloc(&data_, std::max<std::size_t>(count, 1) * sizeof(T)), "cudaMalloc");
    check(cudaMemset(data_, 0xFF, count * sizeof(T)), "cudaMemset");
  }
  explicit DeviceNumbers(const std::vector<T>& host) : DeviceNumbers(host.size()) {
    check(cudaMemcpy(data_, host.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~DeviceNumbers() { cudaFree(data_); }
  DeviceNumbers(const DeviceNumbers&) = delete;
  DeviceNumbers& operator=(const DeviceNumbers&) = delete;
  T* data() const { return data_; }
  std::vector<T> copy() const {
    std::vector<T> host(count_);
    check(cudaMemcpy(host.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
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

// What the device can do at the most, by its own account of its clocks.
struct Peak {
  double flop_per_s = 0, bytes_per_s = 0;
};
inline Peak peak() {
  const auto attribute = [](cudaDeviceAttr which) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, which, 0), "cudaDeviceGetAttribute");
    return static_cast<double>(value);
  };
  // fp32 multiply-adds a clock: 64 a multiprocessor of sm_80, 128 of all that came after.
  const bool is_sm_80 = attribute(cudaDevAttrComputeCapabilityMajor) == 8 &&
                        attribute(cudaDevAttrComputeCapabilityMinor) == 0;
  return {attribute(cudaDevAttrMultiProcessorCount) * attribute(cudaDevAttrClockRate) * 1e3 * 2 *
              (is_sm_80 ? 64 : 128),
          attribute(cudaDevAttrMemoryClockRate) * 1e3 * 2 *
              attribute(cudaDevAttrGlobalMemoryBusWidth) / 8};
}

// Median of the times of `rounds` launches, each after what the L2 cache held was overwritten.
inline double median_ms(const std::function<cudaError_t()>& launch, int rounds) {
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

#else

template <typename T>
class DeviceNumbers {
 public:
  explicit DeviceNumbers(std::size_t count) : numbers_(count) {
    std::memset(static_cast<void*>(numbers_.data()), 0xFF, count * sizeof(T));
  }
  explicit DeviceNumbers(std::vector<T> host) : numbers_(std::move(host)) {}
  T* data() const { return const_cast<T*>(numbers_.data()); }
  std::vector<T> copy() const { return numbers_; }

 private:
  std::vector<T> numbers_;
};

inline std::string device_name() { return "emulator"; }

#endif

}  // namespace kvloupe::cuda::testing
