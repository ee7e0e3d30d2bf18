// The CUDA kernels of core/selection's operators against the CPU's, which tests/selection holds against
// plain loops.
#include "tests/cuda/on_cuda.h"
#include "tests/selection/selection_calls.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <string>

namespace kvloupe::selection {
namespace {

class CudaSelection : public OnCuda,
                      public ::testing::WithParamInterface<testing::SelectionShape> {};

TEST_P(CudaSelection, IsTheCpus) {
  const testing::SelectionCalls calls(GetParam());
  testing::expect_same(
      calls.run([](const at::Tensor& tensor) { return tensor.to(at::Device("cuda:0")); }),
      calls.run([](const at::Tensor& tensor) { return tensor; }));
}

std::vector<testing::SelectionShape> large_and_small_shapes() {
  auto shapes = testing::selection_shapes();
  shapes.push_back({32, 8, 128, 30720, 128});
  return shapes;
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaSelection, ::testing::ValuesIn(large_and_small_shapes()),
                         [](const auto& shape) {
                           return "dim" + std::to_string(shape.param.dim) + "keys" +
                                  std::to_string(shape.param.keys);
                         });

}  // namespace
}  // namespace kvloupe::selection
