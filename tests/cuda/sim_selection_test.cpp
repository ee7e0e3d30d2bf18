// The operators of core/selection on the device `sim`, where our kernels run in the emulator, against the
// CPU's; and those of the generic forms whose kernels hide them there, called by name.
#include "core/attention/find_operator.h"
#include "core/base/work_count.h"
#include "core/cuda/emulator/emulator.h"
#include "core/cuda/row_products.cuh"
#include "core/cuda/sim/sim_device.h"
#include "core/selection/operators/generic_forms.h"
#include "tests/selection/selection_calls.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::selection {
namespace {

using testing::SelectionShape;

at::Tensor on_sim(const at::Tensor& tensor) { return tensor.to(at::Device("sim:0")); }

class SimSelection : public ::testing::TestWithParam<SelectionShape> {
 protected:
  SimSelection() { sim::register_device(); }
};

TEST_P(SimSelection, IsTheCpus) {
  const testing::SelectionCalls calls(GetParam());
  const auto want = calls.run([](const at::Tensor& tensor) { return tensor; });
  const WorkCount work;
  const auto got = calls.run(on_sim);
  EXPECT_EQ(work.key_products(), 0) << "a kernel of the CPU ran";
  for (const auto& result : got) EXPECT_EQ(result.tensor.device().str(), "sim:0") << result.name;
  testing::expect_same(got, want);
}

INSTANTIATE_TEST_SUITE_P(Shapes, SimSelection, ::testing::ValuesIn(testing::selection_shapes()),
                         [](const auto& shape) { return "dim" + std::to_string(shape.param.dim); });

TEST(SimKernels, RunWhereTheyDoWhatIsAskedForAlone) {
  sim::register_device();
  const auto launches = [](std::int64_t dim) {
    const at::Tensor q = at::randn({2, 3, dim}), k = at::randn({1, 40, dim});
    const std::uint64_t before = cuda::emulator::num_launches();
    score_keys(on_sim(q), on_sim(k), on_sim(at::zeros({2, 1}, at::kInt)), 40, {});
    return cuda::emulator::num_launches() - before;
  };
  EXPECT_EQ(launches(cuda::kMostChannels), 2U);
  EXPECT_EQ(launches(cuda::kMostChannels + 1), 0U);
}

// Of 16 bits, and of the same numbers in fp32.
class SimTypes : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  SimTypes() { sim::register_device(); }

  static std::vector<at::Tensor> run(at::ScalarType type) {
    using attention::find_operator;
    at::manual_seed(11);
    const auto placed = [&](at::IntArrayRef sizes) {
      return on_sim(at::randn(sizes).to(GetParam()).to(type));
    };
    const at::Tensor q = placed({6, 9, 40}), k = placed({2, 77, 40}).narrow(1, 0, 70);
    const at::Tensor chosen = on_sim(at::arange(6 * 4, at::kInt).remainder(9).view({6, 4}));
    const auto products = find_operator<decltype(cpu::key_products)>("kvloupe::key_products");
    const at::Tensor bounds =
        find_operator<decltype(cpu::page_bounds)>("kvloupe::page_bounds").call(k, 16, 5);
    EXPECT_EQ(bounds.scalar_type(), type);
    return {find_operator<decltype(cpu::score_keys)>("kvloupe::score_keys")
                .call(q, k, chosen, 60, true, false, true),
            products.call(q.select(1, 3), k),
            products.call(q.select(1, 3).to(at::kFloat), k),
            bounds.to(at::kFloat),
            find_operator<decltype(cpu::page_scores)>("kvloupe::page_scores").call(q, bounds),
            find_operator<decltype(cpu::block_means)>("kvloupe::block_means").call(k, 32, 5)};
  }
};

TEST_P(SimTypes, GiveTheBitsOfFp32) {
  const std::uint64_t before = cuda::emulator::num_launches();
  const auto got = run(GetParam());
  const std::uint64_t launches = cuda::emulator::num_launches() - before;
  const auto want = run(at::kFloat);
  EXPECT_EQ(launches, 10U) << "a kernel did not run";
  EXPECT_EQ(cuda::emulator::num_launches() - before, 2 * launches);
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].scalar_type(), at::kFloat) << i;
    EXPECT_TRUE(at::equal(got[i].cpu(), want[i].cpu())) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, SimTypes, ::testing::Values(at::kHalf, at::kBFloat16),
                         [](const auto& type) { return at::toString(type.param); });

TEST(SimKernels, LeaveOtherTypesToTheGenericForm) {
  sim::register_device();
  const at::Tensor rows = on_sim(at::randn({2, 40, 8}, at::kDouble));
  const std::uint64_t before = cuda::emulator::num_launches();
  const at::Tensor bounds =
      attention::find_operator<decltype(cpu::page_bounds)>("kvloupe::page_bounds")
          .call(rows, 16, 0);
  EXPECT_EQ(bounds.scalar_type(), at::kDouble);
  EXPECT_EQ(cuda::emulator::num_launches(), before);
}

// Calls of the operators without the checks of operators.h, which have fp64 refused.
class SoftmaxCalls {
 public:
  SoftmaxCalls() { at::manual_seed(12); }

  std::vector<at::Tensor> run(at::ScalarType type, at::ScalarType rounded_to) const {
    using attention::find_operator;
    const auto placed = [&](const at::Tensor& numbers) {
      return on_sim(numbers.to(rounded_to).to(type));
    };
    const at::Tensor queries = placed(queries_), keys = placed(keys_).narrow(1, 0, 90);
    const auto [columns, slashes] =
        find_operator<decltype(cpu::columns_and_slashes)>("kvloupe::columns_and_slashes")
            .call(queries, keys, visible_, first_, sinks_, 0.3, 2);
    return {find_operator<decltype(cpu::reduce_probabilities)>("kvloupe::reduce_probabilities")
                .call(queries, keys, visible_, first_, sinks_, 0.3, 2, true),
            find_operator<decltype(cpu::joint_softmax_sums)>("kvloupe::joint_softmax_sums")
                .call(queries, keys, visible_, first_, 0.3, 2),
            columns, slashes};
  }

 private:
  at::Tensor queries_ = at::randn({4, 20, 40}), keys_ = at::randn({2, 95, 40});
  at::Tensor visible_ = at::arange(71, 91, at::kLong), first_ = at::arange(5, 25, at::kLong),
             sinks_ = at::randn({4 * 20});
};

TEST(SimKernels, SumProbabilitiesOfSixteenBitsToTheBitsOfFp32) {
  sim::register_device();
  const SoftmaxCalls calls;
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    const std::uint64_t before = cuda::emulator::num_launches();
    const auto got = calls.run(type, type);
    EXPECT_EQ(cuda::emulator::num_launches() - before, 10U) << "a kernel did not run";
    const auto want = calls.run(at::kFloat, type);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(got[i].scalar_type(), want[i].scalar_type()) << i;
      EXPECT_TRUE(at::equal(got[i].cpu(), want[i].cpu())) << i;
    }
  }
}

TEST(SimKernels, LeaveProbabilitiesOfOtherTypesToTheGenericForm) {
  sim::register_device();
  const SoftmaxCalls calls;
  const auto want = calls.run(at::kFloat, at::kFloat);
  const std::uint64_t before = cuda::emulator::num_launches();
  const auto got = calls.run(at::kDouble, at::kFloat);
  EXPECT_EQ(cuda::emulator::num_launches(), before);
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_TRUE(
        at::allclose(got[i].cpu().to(at::kDouble), want[i].cpu().to(at::kDouble), 1e-5, 1e-5))
        << i;
}

TEST(GenericSelection, ScoresAreThoseOfTheCpusOwnForm) {
  at::manual_seed(8);
  const at::Tensor q = at::randn({6, 9, 40}), k = at::randn({2, 70, 40});
  const at::Tensor chosen = at::arange(6 * 4, at::kInt).remainder(9).view({6, 4});
  for (const bool cosine : {false, true})
    for (const bool mean : {false, true})
      for (const bool scores_first : {false, true})
        EXPECT_TRUE(at::allclose(generic::score_keys(q, k, chosen, 60, cosine, mean, scores_first),
                                 cpu::score_keys(q, k, chosen, 60, cosine, mean, scores_first),
                                 1e-5, 1e-5))
            << cosine << mean << scores_first;
}

TEST(GenericSelection, QueriesAreChosenAsByTheCpusOwnForm) {
  at::manual_seed(11);
  const at::Tensor q = at::randn({6, 50, 40});
  const at::Tensor relevance = generic::query_relevance(q);
  EXPECT_TRUE(at::allclose(relevance, cpu::query_relevance(q), 1e-12, 1e-12));
  at::Tensor scores = (relevance * 20).round();  // with ties
  scores.select(1, 7).fill_(std::nan(""));
  for (const std::int64_t count : {0, 5, 50, 60}) {
    EXPECT_TRUE(at::equal(generic::ranked_rows(scores, count), cpu::ranked_rows(scores, count)));
    EXPECT_TRUE(at::equal(generic::ranked_rows(scores.to(at::kFloat), count),
                          cpu::ranked_rows(scores.to(at::kFloat), count)));
  }
}

TEST(GenericSelection, KeepsTheRowsOfTheCpusOwnForm) {
  at::manual_seed(9);
  at::Tensor scores = (at::randn({3, 90}) * 4).round();
  scores.narrow(1, 20, 3).fill_(std::nan(""));
  scores.narrow(1, 40, 9).fill_(-0.0);
  for (const std::int64_t budget : {0, 5, 30, 95})
    for (const cpu::MaybeTensor& forced :
         {cpu::MaybeTensor(), cpu::MaybeTensor((at::arange(90) % 9 == 0).to(at::kByte))}) {
      const auto [rows, num_forced, ties] = generic::keep_best_rows(scores, budget, forced);
      const auto [want, want_forced, want_ties] = cpu::keep_best_rows(scores, budget, forced);
      EXPECT_TRUE(at::equal(rows, want)) << budget;
      EXPECT_TRUE(at::equal(num_forced, want_forced)) << budget;
      EXPECT_TRUE(at::equal(ties, want_ties)) << budget;
    }
}

TEST(GenericSelection, PagesAreThoseOfTheCpusOwnForm) {
  at::manual_seed(10);
  const at::Tensor rows = at::randn({2, 61, 24});
  for (const std::int64_t cut : {0, 7}) {
    EXPECT_TRUE(at::equal(generic::page_bounds(rows, 16, cut), cpu::page_bounds(rows, 16, cut)));
    EXPECT_TRUE(at::equal(generic::block_means(rows, 16, cut), cpu::block_means(rows, 16, cut)));
  }
  const at::Tensor q = at::randn({4, 3, 24}), bounds = cpu::page_bounds(rows, 16, 0);
  EXPECT_TRUE(
      at::allclose(generic::page_scores(q, bounds), cpu::page_scores(q, bounds), 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(generic::key_products(q.select(1, 0), rows),
                           cpu::key_products(q.select(1, 0), rows), 1e-5, 1e-5));
}

TEST(GenericSelection, ProbabilitiesAreThoseOfTheCpusOwnForm) {
  at::manual_seed(13);
  const at::Tensor queries = at::randn({6, 20, 24}), keys = at::randn({2, 70, 24});
  const auto are_near = [](const at::Tensor& got, const at::Tensor& want) {
    return at::allclose(got, want, 1e-5, 1e-5);
  };
  for (const bool plain : {true, false}) {
    cpu::MaybeTensor first, sinks;
    const double softcap = plain ? 0 : 1.5;
    if (!plain) first = at::arange(3, 23, at::kLong), sinks = at::randn({6 * 20});
    // Consecutive rows; then others, some of which see nothing.
    at::Tensor visible = at::arange(51, 71, at::kLong);
    const auto [columns, slashes] =
        generic::columns_and_slashes(queries, keys, visible, first, sinks, 0.2, softcap);
    const auto [want_columns, want_slashes] =
        cpu::columns_and_slashes(queries, keys, visible, first, sinks, 0.2, softcap);
    EXPECT_TRUE(are_near(columns, want_columns));
    EXPECT_TRUE(are_near(slashes, want_slashes));
    visible = at::arange(20, at::kLong).mul(3).remainder(17).mul(4);
    for (const bool largest : {false, true})
      EXPECT_TRUE(are_near(
          generic::reduce_probabilities(queries, keys, visible, first, sinks, 0.2, softcap,
                                        largest),
          cpu::reduce_probabilities(queries, keys, visible, first, sinks, 0.2, softcap, largest)))
          << largest;
    EXPECT_TRUE(are_near(generic::joint_softmax_sums(queries, keys, visible, first, 0.2, softcap),
                         cpu::joint_softmax_sums(queries, keys, visible, first, 0.2, softcap)));
  }
}

}  // namespace
}  // namespace kvloupe::selection
