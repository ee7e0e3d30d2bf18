// The generic form of every operator against the CPU's fused one, which the other tests here hold
// against plain loops. The same typed functions are called twice: as they are, and while the generic
// form stands in for the CPU's.
#include "core/attention/generic_attention.h"

#include "core/base/work_count.h"
#include "tests/attention/operator_calls.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <string>

namespace kvloupe::attention {
namespace {

// Torch warns of each kernel that another one replaces.
class NoWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

// While it lives, tensors of the CPU go to the generic form.
class GenericOnTheCpu {
 public:
  GenericOnTheCpu() : ours_(torch::Library::IMPL, "kvloupe", c10::DispatchKey::CPU, __FILE__, 0) {
    NoWarnings handler;
    const c10::WarningUtils::WarningHandlerGuard quiet(&handler);
    ours_.impl("chunk_attention", generic::chunk_attention);
    ours_.impl("chunk_mass", generic::chunk_mass);
    ours_.impl("attention_rows", generic::attention_rows);
    ours_.impl("gather_keys", generic::gather_keys);
    ours_.impl("attend_gathered", generic::attend_gathered);
    ours_.impl("gathered_attention", generic::gathered_attention);
    ours_.impl("kept_attention", generic::kept_attention);
    ours_.impl("paged_attention", generic::paged_attention);
    ours_.impl("block_sparse_attention", generic::block_sparse_attention);
    ours_.impl("lane_attention", generic::lane_attention);
    ours_.impl("gather_lanes", generic::gather_lanes);
    ours_.impl("attend_gathered_lanes", generic::attend_gathered_lanes);
    ours_.impl("gathered_lane_mass", generic::gathered_lane_mass);
  }

 private:
  torch::Library ours_;
};

class GenericAttention : public ::testing::TestWithParam<testing::CallShape> {};

TEST_P(GenericAttention, IsTheCpusInEveryFormOfSoftmax) {
  const testing::OperatorCalls calls(GetParam());
  const auto as_it_is = [](const at::Tensor& tensor) { return tensor; };
  for (const SoftmaxForm& form : testing::call_forms(GetParam().heads)) {
    SCOPED_TRACE(::testing::Message() << "window " << form.window << ", softcap " << form.softcap
                                      << ", " << form.sink_logits.size() << " sinks");
    const auto want = calls.run(form, as_it_is);
    const GenericOnTheCpu generic;
    const WorkCount work;
    const auto got = calls.run(form, as_it_is);
    EXPECT_EQ(work.key_products(), 0) << "a kernel of the CPU ran";
    testing::expect_same(got, want);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, GenericAttention, ::testing::ValuesIn(testing::call_shapes()),
                         [](const auto& shape) { return "dim" + std::to_string(shape.param.dim); });

}  // namespace
}  // namespace kvloupe::attention
