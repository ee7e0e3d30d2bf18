// Every method with every choice of its parameters on the device `sim`, where the CUDA kernels and
// the generic forms of the operators run: the sets of the CPU, whose fused forms share no code with
// them. A host pointer to device memory would end the program.
#include "core/device/torch_device.h"
#include "tests/device/tested_device.h"
#include "tests/selection/sequences.h"
#include "tests/selection/variants.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace kvloupe::selection::testing {
namespace {

class OnSim : public ::testing::TestWithParam<std::string> {
 protected:
  // Layer 5 reuses the sets of another one, where the method does that.
  static void expect_equal_sets(SequenceShape shape, unsigned seed,
                                const std::optional<SoftmaxForm>& softmax = {},
                                at::ScalarType type = at::kFloat) {
    shape.layer = 5;
    Sequence sequence = rounded_to(random_sequence(shape, seed), type);
    sequence.softmax = softmax;
    const MethodRun expected = run_method(sequence, GetParam());
    sequence.device = device::torch_device(device::testing::tested_device());
    sequence.type = type;
    const MethodRun run = run_method(sequence, GetParam());
    EXPECT_EQ(positions_of(run), positions_of(expected));
    EXPECT_EQ(run.evicted, expected.evicted);
    EXPECT_EQ(run.alive, expected.alive);
    ASSERT_EQ(run.cells.size(), expected.cells.size());
    for (std::size_t i = 0; i < run.cells.size(); ++i) {
      const CellSelection &cell = run.cells[i], &other = expected.cells[i];
      EXPECT_EQ(cell.dense_reason, other.dense_reason);
      EXPECT_EQ(cell.lane_counts, other.lane_counts);
      for (std::size_t row = 0; row < cell.rows.size(); ++row) {
        EXPECT_EQ(cell.rows[row].forced, other.rows[row].forced);
        EXPECT_EQ(cell.rows[row].ties_at_cut, other.rows[row].ties_at_cut);
      }
      if (cell.blocks && other.blocks) {
        EXPECT_EQ(cell.blocks->kept, other.blocks->kept);
      }
    }
  }
};

TEST_P(OnSim, GivesTheSetsOfTheCpu) { expect_equal_sets({}, 91); }

// Query heads of a group of 3, chunks that straddle pages and blocks, a KV cache with one head.
TEST_P(OnSim, GivesTheSetsOfTheCpuInOtherShapes) {
  expect_equal_sets(
      {.num_q_heads = 3, .num_kv_heads = 1, .head_dim = 8, .chunk_lengths = {1, 9, 30, 13}}, 92);
}

TEST_P(OnSim, GivesTheSetsOfTheCpuInALayerOfAnotherSoftmax) {
  expect_equal_sets({}, 93, SoftmaxForm(0.3, 21, 4, {-0.5F, 0.75F, 2.25F, 1.0F}));
}

// The CPU is given the same numbers in fp32.
TEST_P(OnSim, GivesTheSetsOfTheCpuInFp16) { expect_equal_sets({}, 94, {}, at::kHalf); }

TEST_P(OnSim, GivesTheSetsOfTheCpuInBf16) { expect_equal_sets({}, 95, {}, at::kBFloat16); }

std::vector<std::string> all_variants() {
  std::vector<std::string> specs = variants("budget_tokens=11");
  for (const std::string& spec : variants_without_budget()) specs.push_back(spec);
  return specs;
}

INSTANTIATE_TEST_SUITE_P(Methods, OnSim, ::testing::ValuesIn(all_variants()));

}  // namespace
}  // namespace kvloupe::selection::testing
