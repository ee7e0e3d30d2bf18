// The operators of attention on numbers of 16 bits, against the CPU's fp32 on the same numbers.
#pragma once

#include "tests/attention/operator_calls.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstddef>

namespace kvloupe::attention::testing {

inline at::Tensor in_type(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.is_floating_point() ? tensor.to(type) : tensor;
}

// Rounded are the weights before they meet V, of which no number is above 5, and the output.
inline void expect_near(const CallResult& got, const at::Tensor& want, at::ScalarType type) {
  const double rounding = type == at::kHalf ? 0x1p-11 : 0x1p-8;
  const at::Tensor error = (got.tensor.cpu().to(at::kFloat) - want).abs();
  const at::Tensor tolerated = got.tensor.scalar_type() == at::kFloat
                                   ? 2e-5 + 1e-5 * want.abs()
                                   : 2e-5 + rounding * (5 + want.abs());
  EXPECT_TRUE((error <= tolerated).all().item<bool>())
      << got.name << ": off by " << error.max().item<double>();
}

// By our kernels and, of the widest heads and of lanes, by the generic form.
inline void expect_the_cpus(const char* device, at::ScalarType type) {
  for (const CallShape& shape :
       {CallShape{6, 2, 20, 70, 64, 16}, {4, 4, 1, 133, 128, 32}, {2, 1, 5, 64, 260, 16}}) {
    SCOPED_TRACE(shape.dim);
    const OperatorCalls calls(shape);
    // With all that a form may have.
    const SoftmaxForm form = call_forms(shape.heads).back();
    const auto got = calls.run(form, [&](const at::Tensor& tensor) {
      return in_type(tensor, type).to(at::Device(device));
    });
    const auto want = calls.run(form, [&](const at::Tensor& tensor) {
      return tensor.is_floating_point() ? in_type(tensor, type).to(at::kFloat) : tensor;
    });
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) expect_near(got[i], want[i].tensor, type);
  }
}

}  // namespace kvloupe::attention::testing
