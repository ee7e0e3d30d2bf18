// The device `sim` against the CPU: Torch's operators, ours, what they say where a GPU fails, and what must end
// the program.
#include "core/attention/attention.h"
#include "core/attention/upload.h"
#include "core/base/error.h"
#include "core/base/foreign_error.h"
#include "core/base/work_count.h"
#include "core/cuda/emulator/emulator.h"
#include "core/cuda/sim/sim_device.h"
#include "core/cuda/status_check.h"
#include "tests/attention/operator_calls.h"
#include "tests/cuda/half_calls.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

class Sim : public ::testing::Test {
 protected:
  Sim() {
    sim::register_device();
    at::manual_seed(11);
  }
  static at::Tensor on_sim(const at::Tensor& tensor) { return tensor.to(at::Device("sim:0")); }
};

TEST_F(Sim, TensorsGoThereAndComeBack) {
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kBool}) {
    const at::Tensor tensor = (at::randn({7, 5}) * 3).to(type);
    const at::Tensor there = on_sim(tensor);
    EXPECT_EQ(there.device().str(), "sim:0");
    EXPECT_TRUE(at::equal(there.cpu(), tensor));
    EXPECT_TRUE(at::equal(on_sim(tensor.t()).cpu(), tensor.t()));
    EXPECT_TRUE(at::equal(there.select(1, 2).contiguous().cpu(), tensor.select(1, 2)));
  }
  EXPECT_EQ(on_sim(at::empty({0, 4})).cpu().sizes(), at::IntArrayRef({0, 4}));
  EXPECT_EQ(on_sim(at::scalar_tensor(2.5)).item<double>(), 2.5);
}

TEST_F(Sim, WhatIsWrittenToAViewStandsInItsTensor) {
  const at::Tensor there = on_sim(at::zeros({3, 4}));
  there.narrow(1, 1, 2).fill_(2).add_(1);
  there.select(0, 0).copy_(at::full({4}, 7.0));
  EXPECT_TRUE(at::equal(on_sim(at::arange(6)).repeat({2}).cpu(), at::arange(6).repeat({2})));
  at::Tensor expected = at::zeros({3, 4});
  expected.narrow(1, 1, 2).fill_(3);
  expected.select(0, 0).fill_(7);
  EXPECT_TRUE(at::equal(there.cpu(), expected));
}

TEST_F(Sim, MemoryIsGivenBack) {
  const std::size_t before = sim::allocated_bytes();
  {
    const at::Tensor there = on_sim(at::zeros({100, 10}));
    EXPECT_EQ(sim::allocated_bytes(), before + 4000);
  }
  EXPECT_EQ(sim::allocated_bytes(), before);
}

TEST_F(Sim, OperatorsOfTorchGiveTheCpusNumbers) {
  const at::Tensor a = at::randn({3, 40, 16}), b = at::randn({3, 16, 50});
  using Operator = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;
  const std::vector<std::pair<std::string, Operator>> operators = {
      {"matmul", [](const auto& x, const auto& y) { return at::matmul(x, y); }},
      {"norm", [](const auto& x, const auto&) { return x.norm(2, -1); }},
      {"amax", [](const auto& x, const auto&) { return x.amax(1); }},
      {"topk", [](const auto& x, const auto&) { return std::get<1>(at::topk(x, 5, 1)); }},
      {"sort", [](const auto& x, const auto&) { return std::get<1>(x.sort(true, 1, false)); }},
      {"softmax", [](const auto& x, const auto&) { return at::softmax(x, -1); }},
      {"cat",
       [](const auto& x, const auto& y) {
         return at::cat({x, y.transpose(1, 2)}, 1);
       }},
      {"in place", [](const auto& x, const auto&) { return x.clone().mul_(2).add_(1); }},
      {"view",
       [](const auto& x, const auto&) {
         return x.reshape({3, 10, 64}).narrow(1, 2, 3);
       }},
      {"masked", [](const auto& x, const auto&) { return x.masked_fill(x > 0, -1); }},
      {"gather",
       [](const auto& x, const auto&) { return x.index_select(1, x.select(0, 0).argmax(0)); }},
      {"attention",
       [](const auto& x, const auto&) { return at::scaled_dot_product_attention(x, x, x); }}};
  for (const auto& [name, run] : operators) {
    const at::Tensor there = run(on_sim(a), on_sim(b));
    EXPECT_EQ(there.device().str(), "sim:0") << name;
    EXPECT_TRUE(at::allclose(there.cpu(), run(a, b), 1e-6, 1e-6)) << name;
  }
}

// What a GPU would be asked for: a kernel each, and a wait where the host needs something of the result.
TEST_F(Sim, CountsLaunchesAndWaits) {
  const at::Tensor cpu = at::randn({8, 16}), there = on_sim(cpu), mask = there > 0;
  using Counts = std::pair<std::int64_t, std::int64_t>;
  const auto counted = [](const std::function<void()>& run) {
    const sim::Work before = sim::work();
    run();
    const sim::Work after = sim::work();
    return Counts{after.launches - before.launches, after.host_waits - before.host_waits};
  };
  EXPECT_EQ(counted([&] { there.add(1); }), Counts(1, 0));
  EXPECT_EQ(counted([&] { there.transpose(0, 1).narrow(1, 2, 3); }), Counts(0, 0));
  EXPECT_EQ(counted([&] { there.cpu(); }), Counts(0, 1));
  EXPECT_EQ(counted([&] { on_sim(cpu); }), Counts(0, 1));
  EXPECT_EQ(counted([&] { attention::uploaded(cpu, there.device()); }), Counts(0, 0));
  EXPECT_EQ(counted([&] { there.clone(); }), Counts(1, 0));
  EXPECT_EQ(counted([&] { there.select(0, 1).select(0, 2).item(); }), Counts(0, 1));
  EXPECT_EQ(counted([&] { at::nonzero(there); }), Counts(1, 1));
  EXPECT_EQ(counted([&] { there.index({mask}); }), Counts(2, 1));  // nonzero() and what reads by it
  EXPECT_EQ(
      counted([&] { there.clone().index_put_({mask}, at::zeros({}, there.options())); }).second, 1);
  EXPECT_EQ(counted([&] { at::masked_fill(there, mask, 0); }).second, 0);
}

TEST_F(Sim, WhatIsDoneInPlaceOnAViewIsDoneToTheWhole) {
  const auto run = [](at::Tensor whole) {
    whole.narrow(1, 2, 3).masked_fill_(whole.narrow(1, 2, 3) > 0, -1).mul_(2);
    at::Tensor part = whole.narrow(0, 0, 1);
    at::index_select_out(part, whole.clone(), 0, at::ones({1}, whole.options().dtype(at::kLong)));
    return whole;
  };
  const at::Tensor numbers = at::randn({4, 6});
  EXPECT_TRUE(at::equal(run(on_sim(numbers)).cpu(), run(numbers.clone())));
}

TEST_F(Sim, ChunkAttentionRunsOurKernel) {
  const at::Tensor q = at::randn({6, 20, 64});
  const at::Tensor k = at::randn({2, 90, 64}).narrow(1, 0, 70),
                   v = at::randn({2, 90, 64}).narrow(1, 0, 70);
  const double scale = 1 / std::sqrt(64.0);
  const auto want = attention::dense_chunk_attention(q, k, v, scale, true);
  const auto got = attention::dense_chunk_attention(on_sim(q), on_sim(k), on_sim(v), scale, true);
  // Only a kernel in the emulator meets barriers.
  EXPECT_FALSE(cuda::emulator::barrier_lines().empty());
  EXPECT_TRUE(at::allclose(got.output.cpu(), want.output, 1e-5, 2e-5));
  EXPECT_TRUE(at::allclose(got.lse.cpu(), want.lse, 1e-5, 2e-5));
  EXPECT_TRUE(at::allclose(got.key_mass.cpu(), want.key_mass, 1e-4, 1e-4));
}

// Every operator: by our kernel where it does what is asked for, else by the generic form, which runs
// outside of any Access, so that it dies where the host reads what lies on the device. The other forms
// of softmax and further shapes are in tests/attention/generic_attention_test.cpp: they are slow here.
class SimAttention : public Sim,
                     public ::testing::WithParamInterface<attention::testing::CallShape> {};

TEST_P(SimAttention, IsTheCpus) {
  const attention::testing::OperatorCalls calls(GetParam());
  const auto forms = attention::testing::call_forms(GetParam().heads);
  for (const SoftmaxForm& form : {forms.front(), forms.back()}) {
    SCOPED_TRACE(::testing::Message() << "window " << form.window << ", softcap " << form.softcap
                                      << ", " << form.sink_logits.size() << " sinks");
    const auto want = calls.run(form, [](const at::Tensor& tensor) { return tensor; });
    const WorkCount work;
    const auto got = calls.run(form, on_sim);
    EXPECT_EQ(work.key_products(), 0) << "a kernel of the CPU ran";
    for (const auto& result : got) EXPECT_EQ(result.tensor.device().str(), "sim:0") << result.name;
    attention::testing::expect_same(got, want);
  }
}

class SimHalf : public Sim, public ::testing::WithParamInterface<at::ScalarType> {
 protected:
  static at::Tensor random(at::IntArrayRef sizes) {
    return on_sim(at::randn(sizes).to(GetParam()));
  }
};

TEST_P(SimHalf, IsTheCpusOnTheSameNumbers) {
  attention::testing::expect_the_cpus("sim:0", GetParam());
}

TEST_P(SimHalf, OutputsAreOfTheTypeOfTheInputsAndLogSumExpsAreNot) {
  for (const std::int64_t dim : {64, 260}) {
    const at::Tensor q = random({2, 3, dim}), k = random({1, 9, dim});
    const auto dense = attention::dense_chunk_attention(q, k, k, 0.1, true);
    EXPECT_EQ(dense.output.scalar_type(), GetParam());
    EXPECT_EQ(dense.lse.scalar_type(), at::kFloat);
    EXPECT_EQ(dense.key_mass.scalar_type(), at::kFloat);
    EXPECT_THROW(attention::dense_chunk_attention(q, k, k.to(at::kFloat), 0.1, true), Error);
    EXPECT_THROW(attention::dense_chunk_attention(q.cpu(), k.cpu(), k.cpu(), 0.1, true), Error);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, SimHalf, ::testing::Values(at::kHalf, at::kBFloat16),
                         [](const auto& type) { return at::toString(type.param); });

std::vector<attention::testing::CallShape> shapes_for_sim() {
  auto shapes = attention::testing::call_shapes();
  std::erase_if(shapes, [](const auto& shape) { return shape.dim == 32 || shape.dim == 33; });
  return shapes;
}

INSTANTIATE_TEST_SUITE_P(Shapes, SimAttention, ::testing::ValuesIn(shapes_for_sim()),
                         [](const auto& shape) { return "dim" + std::to_string(shape.param.dim); });

// What a launch of ours may be the first to meet.
TEST(StatusCheck, WhatAGpuLacksIsNoBugOfOurs) {
  const auto error_of = [](cudaError_t status) {
    try {
      cuda::check(status, "score_keys");
    } catch (const std::exception& thrown) {
      return error_from("a head cannot be scored", thrown);
    }
    throw std::logic_error("nothing was thrown");
  };
  EXPECT_NO_THROW(cuda::check(cudaSuccess, "score_keys"));
  const Error memory = error_of(cudaErrorMemoryAllocation),
              lost = error_of(cudaErrorIllegalAddress);
  EXPECT_EQ(memory.kind(), ErrorKind::Input);
  EXPECT_EQ(memory.why(), "the GPU has not enough memory (CUDA out of memory (score_keys))");
  EXPECT_EQ(lost.kind(), ErrorKind::Input);
  EXPECT_EQ(lost.why(),
            "the GPU failed (CUDA error: an illegal memory access was encountered (score_keys))");
  for (const cudaError_t bug : {cudaErrorInvalidValue, cudaErrorInvalidConfiguration})
    EXPECT_EQ(error_of(bug).kind(), ErrorKind::Internal) << bug;
}

using SimDeath = Sim;

TEST_F(SimDeath, HostCodeThatReadsOrWritesDeviceMemoryDies) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const at::Tensor there = on_sim(at::ones({4}));
  auto* numbers = static_cast<volatile float*>(there.mutable_data_ptr());
  EXPECT_DEATH({ [[maybe_unused]] const float read = numbers[0]; }, "");
  EXPECT_DEATH(numbers[0] = 2, "");
}

TEST_F(SimDeath, ReadingBeyondATensorDiesInsideAnOperatorToo) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const at::Tensor there = on_sim(at::ones({16}));
  const sim::Access access;
  auto* numbers = static_cast<volatile float*>(there.mutable_data_ptr());
  EXPECT_EQ(numbers[15], 1);
  EXPECT_DEATH({ [[maybe_unused]] const float read = numbers[16]; }, "");
}

}  // namespace
}  // namespace kvloupe
