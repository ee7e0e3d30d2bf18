// The CUDA kernels against the CPU's, which tests/attention holds against plain loops.
#include "core/attention/attention.h"
#include "tests/attention/operator_calls.h"
#include "tests/cuda/half_calls.h"
#include "tests/cuda/on_cuda.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <cmath>
#include <string>

namespace kvloupe {
namespace {

struct Shape {
  std::int64_t num_q_heads, num_kv_heads, m, past, dim;
};

class CudaParity : public OnCuda, public ::testing::WithParamInterface<Shape> {};

TEST_P(CudaParity, OutputLseAndMassAgreeWithTheCpu) {
  const Shape& s = GetParam();
  at::manual_seed(3);
  const at::Tensor q = at::randn({s.num_q_heads, s.m, s.dim});
  // Views of a cache with room to grow, as in a running model.
  const at::Tensor k =
      at::randn({s.num_kv_heads, s.past + s.m + 9, s.dim}).narrow(1, 0, s.past + s.m);
  const at::Tensor v =
      at::randn({s.num_kv_heads, s.past + s.m + 9, s.dim}).narrow(1, 0, s.past + s.m);
  const double scale = 1 / std::sqrt(static_cast<double>(s.dim));
  const auto want = attention::dense_chunk_attention(q, k, v, scale, true);
  const at::Device cuda(at::kCUDA, 0);
  const auto got =
      attention::dense_chunk_attention(q.to(cuda), k.to(cuda), v.to(cuda), scale, true);
  const auto error = [](const at::Tensor& a, const at::Tensor& b) {
    return (a.cpu() - b).abs().max().item<double>();
  };
  EXPECT_LT(error(got.output, want.output), 2e-5);
  EXPECT_LT(error(got.lse, want.lse), 2e-5);
  EXPECT_LT(error(got.key_mass, want.key_mass), 1e-4);
  const auto plain =
      attention::dense_chunk_attention(q.to(cuda), k.to(cuda), v.to(cuda), scale, false);
  EXPECT_FALSE(plain.key_mass.defined());
  EXPECT_TRUE(at::equal(plain.output, got.output));
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaParity,
                         testing::Values(Shape{9, 3, 128, 900, 64}, Shape{24, 8, 128, 2000, 128},
                                         Shape{4, 4, 33, 0, 32}, Shape{8, 1, 1, 77, 256},
                                         Shape{6, 2, 50, 3, 80}),
                         [](const testing::TestParamInfo<Shape>& shape) {
                           return "dim" + std::to_string(shape.param.dim);
                         });

class CudaHalf : public OnCuda, public ::testing::WithParamInterface<at::ScalarType> {};

TEST_P(CudaHalf, IsTheCpusOnTheSameNumbers) {
  attention::testing::expect_the_cpus("cuda:0", GetParam());
}

INSTANTIATE_TEST_SUITE_P(Types, CudaHalf, testing::Values(at::kHalf, at::kBFloat16),
                         [](const auto& type) { return at::toString(type.param); });

class CudaOperators : public OnCuda,
                      public ::testing::WithParamInterface<attention::testing::CallShape> {};

TEST_P(CudaOperators, AreTheCpusInEveryFormOfSoftmax) {
  const attention::testing::OperatorCalls calls(GetParam());
  for (const SoftmaxForm& form : attention::testing::call_forms(GetParam().heads)) {
    const auto want = calls.run(form, [](const at::Tensor& tensor) { return tensor; });
    const auto got =
        calls.run(form, [](const at::Tensor& tensor) { return tensor.to(at::Device("cuda:0")); });
    attention::testing::expect_same(got, want);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaOperators,
                         testing::ValuesIn(attention::testing::call_shapes()),
                         [](const auto& shape) { return "dim" + std::to_string(shape.param.dim); });

}  // namespace
}  // namespace kvloupe
