// What methods are compared with: that each form of dense attention is that, and what is left out and why.
#include "core/measure/dense_baseline.h"

#include "core/attention/attention.h"
#include "core/base/error.h"
#include "core/device/torch_device.h"
#include "core/measure/dense_forms.h"
#include "core/measure/gpu_kernels.h"
#include "tests/base/matchers.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::measure {
namespace {

using Names = std::vector<std::string>;

struct Chunk {
  at::Tensor q, k, v;
};
Chunk random_chunk() {
  at::manual_seed(5);
  return {at::randn({6, 9, 16}), at::randn({2, 40, 16}), at::randn({2, 40, 16})};
}

Names names_of(const std::vector<NamedAttention>& forms) {
  Names names;
  for (const NamedAttention& form : forms) names.push_back(form.name);
  return names;
}

DenseForm form_of(const char* name, Attend run) {
  return {name, [run = std::move(run)] { return run; }};
}

TEST(DenseBaseline, AllFormsAreTheChunksDenseAttention) {
  const auto [q, k, v] = random_chunk();
  const at::Tensor want = attention::dense_chunk_attention(q, k, v, 0.25, false).output;
  const DenseBaseline baseline(q, k, v, 0.25);
  EXPECT_EQ(names_of(baseline.forms()),
            (Names{"sdpa gqa", "sdpa expanded", "sdpa folded", kOwnForm}));
  EXPECT_TRUE(baseline.left_out().empty());
  EXPECT_EQ(baseline.parts().size(), 4U);
  for (const NamedAttention& form : baseline.forms()) {
    const at::Tensor got = form.run();
    ASSERT_EQ(got.sizes(), want.sizes()) << form.name;
    EXPECT_LT((got - want).abs().max().item<double>(), 1e-5) << form.name;
  }
}

TEST(DenseBaseline, OursAloneKnowsEverySoftmax) {
  const auto [q, k, v] = random_chunk();
  for (const SoftmaxForm& softmax :
       {SoftmaxForm(0.25, 0, 2, {}), SoftmaxForm(0.25, 0, 0, std::vector<float>(6, 0.5F))}) {
    const DenseBaseline baseline(q, k, v, softmax);
    EXPECT_EQ(names_of(baseline.forms()), Names{kOwnForm});
    ASSERT_EQ(baseline.left_out().size(), 3U);
    for (const DenseLeftOut& one : baseline.left_out())
      EXPECT_EQ(one.why, "it knows no softcap and no sink") << one.form;
  }
}

// There each form is run once and compared.
TEST(DenseBaseline, OnADeviceAllThatAgreeAreTaken) {
  const c10::Device sim = device::torch_device("sim");
  const auto [q, k, v] = random_chunk();
  for (const SoftmaxForm& softmax : {SoftmaxForm(0.25), SoftmaxForm(0.25, 12, 0, {})})
    for (const at::ScalarType type : {at::kFloat, at::kHalf}) {
      const DenseBaseline baseline(q.to(sim, type), k.to(sim, type), v.to(sim, type), softmax);
      EXPECT_EQ(names_of(baseline.forms()),
                (Names{"sdpa gqa", "sdpa expanded", "sdpa folded", kOwnForm}));
      for (const DenseLeftOut& one : baseline.left_out()) ADD_FAILURE() << one.form << one.why;
    }
}

// That of our operator, which is another code, in each form of the softmax; the last in two pieces.
TEST(PlainAttention, IsTheDefinition) {
  const auto [q, k, v] = random_chunk();
  const std::vector<float> sinks = {0.5F, -1, 2, 0, 1, 3};
  const auto expect_equal = [](const Chunk& chunk, const SoftmaxForm& softmax) {
    const at::Tensor want =
        attention::dense_chunk_attention(chunk.q, chunk.k, chunk.v, softmax, false).output;
    const at::Tensor got = plain_attention(chunk.q, chunk.k, chunk.v, softmax);
    ASSERT_EQ(got.sizes(), want.sizes());
    EXPECT_LT((got - want).abs().max().item<double>(), 1e-5);
  };
  for (const SoftmaxForm& softmax :
       {SoftmaxForm(0.25), SoftmaxForm(0.25, 12, 0, {}), SoftmaxForm(0.25, 0, 2, {}),
        SoftmaxForm(0.25, 0, 0, sinks), SoftmaxForm(0.25, 12, 2, sinks)})
    expect_equal({q, k, v}, softmax);
  expect_equal({at::randn({1, 100, 8}), at::randn({1, 200000, 8}), at::randn({1, 200000, 8})}, 0.5);
}

// What Torch refuses, what has no memory and what attends to other keys is no baseline.
TEST(ChooseForms, ThoseThatFailOrDifferAreLeftOutWithTheReason) {
  const at::Tensor expected = at::randn({2, 3, 4});
  const std::vector<DenseForm> forms = {
      form_of("fails",
              []() -> at::Tensor {
                TORCH_CHECK(false, "no such kernel");
                return {};
              }),
      form_of("large",
              []() -> at::Tensor {
                TORCH_CHECK_WITH(OutOfMemoryError, false,
                                 "CUDA out of memory. Tried to allocate 40.00 GiB. GPU 0 has a");
                return {};
              }),
      {"large inputs",
       []() -> Attend {
         TORCH_CHECK_WITH(OutOfMemoryError, false,
                          "CUDA out of memory. Tried to allocate 6.00 GiB. GPU 0 has a");
         return {};
       }},
      form_of("differs", [&] { return expected * 1.5; }),
      form_of("agrees", [&] { return expected.to(at::kHalf); }),
      form_of("other shape", [&] { return expected.narrow(1, 0, 2); }),
      {"of others", [] { return Attend(); }, "it is not for this chunk"}};
  const ChosenForms chosen = choose_forms(forms, expected);
  EXPECT_EQ(names_of(chosen.forms), Names{"agrees"});
  ASSERT_EQ(chosen.left_out.size(), 6U);
  const auto why = [&](std::size_t i) { return chosen.left_out[i].why; };
  EXPECT_EQ(chosen.left_out[0].form, "fails");
  EXPECT_EQ(why(0), "no such kernel");
  EXPECT_EQ(why(1),
            "the GPU has not enough memory (CUDA out of memory. Tried to allocate 40.00 GiB)");
  EXPECT_EQ(why(2),
            "the GPU has not enough memory (CUDA out of memory. Tried to allocate 6.00 GiB)");
  EXPECT_THAT(why(3), HasSubstr("apart from that of plain products"));
  EXPECT_EQ(why(4), "its result has another shape");
  EXPECT_EQ(why(5), "it is not for this chunk");
}

TEST(ChooseForms, AGpuThatFailedIsNoReasonOfOneForm) {
  const std::vector<DenseForm> forms = {form_of("first", []() -> at::Tensor {
    TORCH_CHECK(false, "CUDA error: an illegal memory access was encountered");
    return {};
  })};
  EXPECT_THROW(choose_forms(forms, at::randn({2, 3, 4})), c10::Error);
}

// Ours is no judge of the others, nor of itself.
TEST(ChooseForms, ThatOursIsWrongIsALineOfItsOwn) {
  const at::Tensor expected = at::randn({2, 3, 4});
  const auto said = [&](const char* name) {
    ::testing::internal::CaptureStderr();
    const ChosenForms chosen = choose_forms(
        {form_of(name, [&] { return -expected; }), form_of("right", [&] { return expected; })},
        expected);
    EXPECT_EQ(names_of(chosen.forms), Names{"right"});
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(said(kOwnForm), HasSubstr("warning: KVLoupe's own dense attention is wrong here"));
  EXPECT_THAT(said("flash, fp16"), StartsWith("dense attention by flash, fp16 is left out"));
}

// A trace may hold numbers that are none.
TEST(ChooseForms, WhatIsNotFiniteIsNotCompared) {
  at::Tensor expected = at::randn({2, 3, 4});
  expected[0][1][2] = std::numeric_limits<double>::quiet_NaN();
  const auto chosen_of = [&](const at::Tensor& found) {
    return choose_forms({form_of("one", [&] { return found; })}, expected).forms.size();
  };
  EXPECT_EQ(chosen_of(expected), 1U);
  at::Tensor more = expected.clone();
  more[1][1][1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(chosen_of(more), 0U);
}

TEST(MadeOnce, IsMadeWhenItIsAskedFor) {
  int made = 0;
  const MakeTensor make = made_once([&] { return at::full({1}, ++made); });
  const MakeTensor other = make;
  EXPECT_EQ(made, 0);
  EXPECT_TRUE(make().is_same(other()));
  EXPECT_EQ(made, 1);
}

// A GPU's kernels are none of the processor's: each is refused there, and none stands in for it.
TEST(GpuKernels, NoneRunsOnTheProcessor) {
  const at::Tensor q = at::randn({1, 4, 3, 8}), k = at::randn({1, 2, 9, 8});
  const MakeTensor each = [&] { return k.repeat_interleave(2, 1); };
  const auto forms = gpu_kernels({q, k, k, each, each, [] { return at::zeros({3, 9}); }, 0.3});
  EXPECT_EQ(forms.size(), 4U);
  for (const DenseForm& form : forms) EXPECT_THROW(form.make()(), c10::Error) << form.name;
}

}  // namespace
}  // namespace kvloupe::measure
