// What the cases of all kernels share. Free of Torch and of any test library.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace kvloupe::cuda::testing {

inline std::vector<float> random_numbers(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

namespace detail {

// The largest difference so far, in parts of `unit`; infinite where a number is NaN.
inline void note(double got, double want, double& largest, double unit = 1) {
  const double error = std::abs(got - want) / unit;
  largest = std::isfinite(error) ? std::max(largest, error) : INFINITY;
}

}  // namespace detail

}  // namespace kvloupe::cuda::testing
