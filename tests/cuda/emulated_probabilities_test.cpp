// The kernels of probabilities.cuh as host code, against plain loops in fp64: in several orders of
// threads, with memory that faults beyond its ends, with each barrier left out in turn, and against the
// bits that the same numbers give in fp32.
#include "tests/cuda/device_array.h"
#include "tests/cuda/emulated_test.h"
#include "tests/cuda/probabilities_case.h"

#include <gtest/gtest.h>

namespace kvloupe::cuda {
namespace {

using testing::Reduced;
using testing::SoftmaxResults;
using testing::SoftmaxShape;
using Placed = testing::PlacedSoftmax<testing::DeviceArray>;

SoftmaxResults run(const Placed& placed) {
  EXPECT_EQ(placed.launch(), cudaSuccess);
  return placed.results();
}

class EmulatedProbabilities : public testing::EmulatedTest {};

template <typename Check>
void for_each_shape(const Check& check) {
  for (const SoftmaxShape& shape : testing::softmax_shapes()) {
    SCOPED_TRACE(::testing::Message()
                 << testing::name_of(shape.reduced) << " in " << testing::name_of(shape.type)
                 << ": " << shape.sets() << " sets of " << shape.rows << " rows, " << shape.keys
                 << " keys of " << shape.width);
    check(Placed(shape));
  }
}

TEST_F(EmulatedProbabilities, AreThoseOfPlainLoops) {
  for_each_shape([](const Placed& placed) { EXPECT_LT(placed.error(run(placed)), 1); });
}

TEST_F(EmulatedProbabilities, AreTheSameInAllOrdersOfThreads) {
  for_each_shape(
      [](const Placed& placed) { expect_the_same_in_all_orders([&] { return run(placed); }); });
}

TEST_F(EmulatedProbabilities, HaveTheBitsOfTheSameNumbersInFp32) {
  for_each_shape([](const Placed& placed) { EXPECT_TRUE(run(placed) == run(placed.in_fp32())); });
}

TEST_F(EmulatedProbabilities, EveryBarrierIsNeeded) {
  for (const SoftmaxShape& shape : testing::in_all_types<SoftmaxShape>(
           {{Reduced::Slashes, 1, 2, 40, 150, 40}, {Reduced::Slashes, 1, 1, 3, 150, 33}})) {
    SCOPED_TRACE(::testing::Message() << testing::name_of(shape.type) << " of " << shape.width);
    const Placed placed(shape);
    expect_all_barriers_needed("softmax_tile.cuh", 1, [&] { return run(placed); });
    expect_all_barriers_needed("probabilities.cu", 1, [&] { return run(placed); });
  }
}

TEST_F(EmulatedProbabilities, ProblemsThatCannotBeAreRefused) {
  EXPECT_EQ(launch_probabilities({}, nullptr), cudaErrorInvalidValue);
  Probabilities p = testing::problem_of({Reduced::Sum, 1, 1, 1, 1, 2});
  EXPECT_EQ(launch_probabilities(p, nullptr), cudaErrorInvalidValue) << "nothing is asked for";
  float column = 0;
  p.columns = &column;
  p.num_keys = p.end = kMostKeysOfSoftmax + 1;
  EXPECT_EQ(launch_probabilities(p, nullptr), cudaErrorInvalidValue) << "too many keys";
}

}  // namespace
}  // namespace kvloupe::cuda
