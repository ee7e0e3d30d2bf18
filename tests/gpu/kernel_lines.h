// What the kit prints of kernels that select, and the words of all its lines: JSON, which has none for
// what is no number.
#pragma once

#include "core/cuda/number_types.h"
#include "tests/cuda/typed_numbers.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

namespace kvloupe::gpu {

inline double json_number(double error) { return std::isfinite(error) ? error : 1e9; }
inline const char* json_word(bool value) { return value ? "true" : "false"; }

// The kit's page shows the last one beside the exit code.
inline void say_wrong(const std::string& kernel, cuda::NumberType type, const std::string& shape) {
  std::fprintf(stderr, "wrong: %s, %s, %s\n", kernel.c_str(), cuda::testing::name_of(type),
               shape.c_str());
}

// A list of cases of kernels that select, a line each; `error` in parts of what is tolerated.
class Lines {
 public:
  template <typename Case>
  void check_case(const char* kernel, cuda::NumberType type, const std::string& shape,
                  const Case& one) {
    const bool started = one.launch() == cudaSuccess;
    const auto first = one.results();
    const bool again = one.launch() == cudaSuccess;
    const bool same = is_same(first, one.results());
    const double error = one.error(first);
    bool bits_of_fp32 = true;  // that the same numbers give there
    if constexpr (requires { one.in_fp32(); }) {
      const Case in_fp32 = one.in_fp32();
      bits_of_fp32 = in_fp32.launch() == cudaSuccess && is_same(first, in_fp32.results());
    }
    const bool right = started && again && same && bits_of_fp32 && error < 1;
    std::printf(
        "%s\n    {\"kernel\": \"%s\", \"type\": \"%s\", \"shape\": \"%s\", \"error\": %.3g, "
        "\"same_bits\": %s, \"bits_of_fp32\": %s, \"right\": %s}",
        first_ ? "" : ",", kernel, cuda::testing::name_of(type), shape.c_str(), json_number(error),
        json_word(same), json_word(bits_of_fp32), json_word(right));
    if (!right) say_wrong(kernel, type, shape);
    first_ = false;
    right_ = right_ && right;
  }
  bool right() const { return right_; }

 private:
  static bool is_same(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), sizeof(float) * a.size()) == 0;
  }
  template <typename Results>
  static bool is_same(const Results& a, const Results& b) {
    return a == b;
  }

  bool first_ = true, right_ = true;
};

}  // namespace kvloupe::gpu
