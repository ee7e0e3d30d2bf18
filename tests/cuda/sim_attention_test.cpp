// Which operators of attention our kernels do on a device: on `sim`, a kernel whose barriers do not work
// gives other numbers, the generic form the same.
#include "core/cuda/emulator/emulator.h"
#include "core/cuda/sim/sim_device.h"
#include "tests/attention/operator_calls.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <iterator>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

using attention::testing::CallResult;
using attention::testing::OperatorCalls;
namespace emulator = cuda::emulator;

constexpr attention::testing::CallShape kNarrow = {4, 2, 5, 40, 32, 8},
                                        kWide = {2, 1, 5, 40, 257, 8};

class SimKernels : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  SimKernels() { sim::register_device(); }
  ~SimKernels() override {
    emulator::set_schedule(0);
    emulator::leave_out_barrier({});
  }

  static std::vector<CallResult> run(const OperatorCalls& calls) {
    return calls.run(SoftmaxForm(0.2), [](const at::Tensor& tensor) {
      const bool is_index = !tensor.is_floating_point();
      return (is_index ? tensor : tensor.to(GetParam())).to(at::Device("sim:0"));
    });
  }

  // Names of the results that change where a barrier of attention does nothing.
  static std::set<std::string> of_our_kernels(const attention::testing::CallShape& shape) {
    const OperatorCalls calls(shape);
    emulator::leave_out_barrier({});
    const auto right = run(calls);
    const auto sites =
        emulator::barrier_sites_in(GetParam() == at::kFloat ? "attend_fp32.cu" : "attend_half.cu");
    if (sites.size() < 2) throw std::logic_error("no kernel of ours has run");
    // Of fp32 the second one, before the keys that other threads copy are read; of 16 bits the last one,
    // before what other warps found is read.
    emulator::leave_out_barrier(GetParam() == at::kFloat ? *std::next(sites.begin())
                                                         : *sites.rbegin());
    emulator::set_schedule(1);
    const auto got = run(calls);
    std::set<std::string> names;
    for (std::size_t i = 0; i < right.size(); ++i)
      if (!at::equal(got[i].tensor.cpu(), right[i].tensor.cpu())) names.insert(right[i].name);
    return names;
  }

  static bool is_for_kernels(const std::string& name) {
    for (const char* begin : {"dense", "mass lse", "mass", "gathered, ", "kept there",
                              "attend gathered, ", "paged", "block-sparse"})
      if (name.rfind(begin, 0) == 0 && name.rfind("mass of", 0) != 0) return true;
    return false;
  }
};

TEST_P(SimKernels, DoAllAttentionOfHeadsThatAreNotTooWide) {
  const std::set<std::string> names = of_our_kernels(kNarrow);
  int count = 0;
  for (const CallResult& result : run(OperatorCalls(kNarrow))) {
    if (!is_for_kernels(result.name)) continue;
    EXPECT_TRUE(names.contains(result.name)) << result.name << " is not of our kernel";
    ++count;
  }
  EXPECT_GE(count, 20);
}

TEST_P(SimKernels, LeaveWiderHeadsToTheGenericForm) {
  run(OperatorCalls(kNarrow));  // so that the barriers are known
  EXPECT_TRUE(of_our_kernels(kWide).empty());
}

INSTANTIATE_TEST_SUITE_P(Types, SimKernels, ::testing::Values(at::kFloat, at::kHalf, at::kBFloat16),
                         [](const auto& type) { return at::toString(type.param); });

}  // namespace
}  // namespace kvloupe
