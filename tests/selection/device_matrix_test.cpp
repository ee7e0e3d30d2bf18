// Every method with every choice of its parameters on the device `sim`, where the CUDA kernels and
// the generic forms of the operators run: the sets of the CPU, whose fused forms share no code with
// them. A host pointer to device memory would end the program. On a GPU (tests/gpu/run.sh) sets may
// differ in keys at the cut, which are counted.
#include "core/device/torch_device.h"
#include "tests/device/tested_device.h"
#include "tests/selection/same_sets.h"
#include "tests/selection/sequences.h"
#include "tests/selection/variants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::selection::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

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
    Sequence there = sequence;
    there.device = device::torch_device(device::testing::tested_device());
    there.type = type;
    const MethodRun run = run_method(there, GetParam());
    Comparison comparison(run, expected);
    // `sim` sums in the order of the CPU's kernels.
    if (!comparison.defects().empty() && device::testing::tested_device() != "sim")
      comparison = Comparison(run, expected, reasons_of(sequence, GetParam()));
    EXPECT_THAT(comparison.defects(), IsEmpty());
    if (comparison.cells_at_cut() == 0) return;
    RecordProperty("cells_at_cut", comparison.cells_at_cut());
    std::cout << GetParam() << ": " << comparison.cells_at_cut()
              << " cells differ from the CPU's in keys at the cut alone\n";
    all_at_cut_ += comparison.cells_at_cut();
  }
  static void TearDownTestSuite() {
    std::cout << "cells that differ in keys at the cut alone: " << all_at_cut_ << "\n";
  }

 private:
  static inline int all_at_cut_ = 0;
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

// The comparison itself, on runs of the CPU of which a key is changed.

// The last unit of `by` that was kept by score, and the first that was not.
struct AtTheCut {
  std::int32_t kept, lost;
};
AtTheCut at_the_cut(const RowEvidence& by) {
  const std::vector<std::int32_t> best = by.order();
  const auto num_kept = static_cast<std::size_t>(by.num_kept);
  return {best.at(num_kept - 1), best.at(num_kept)};
}

void replace(Keys& keys, std::int32_t one, std::int32_t other) {
  std::replace(keys.begin(), keys.end(), one, other);
  std::sort(keys.begin(), keys.end());
}

TEST(SameSets, MayDifferInAKeyAtTheCut) {
  const Sequence sequence = random_sequence({.layer = 5}, 96);
  const std::string spec = "uniform_queries:budget_tokens=11";
  const MethodRun expected = run_method(sequence, spec);
  Reasons reasons = reasons_of(sequence, spec);
  EXPECT_THAT(Comparison(expected, expected).defects(), IsEmpty());
  RowEvidence& by = reasons.selected[2][0];
  const AtTheCut unit = at_the_cut(by);
  MethodRun run = expected;
  replace(run.cells[2].rows[0].positions, by.begin[unit.kept], by.begin[unit.lost]);
  EXPECT_THAT(Comparison(run, expected).defects(), SizeIs(1));
  EXPECT_THAT(Comparison(run, expected, reasons).defects(), SizeIs(1));
  by.scores[unit.lost] = *by.cut() - 0.9e-5 * std::abs(*by.cut());
  const Comparison near(run, expected, reasons);
  EXPECT_THAT(near.defects(), IsEmpty());
  EXPECT_EQ(near.cells_at_cut(), 1);
  EXPECT_THAT(Comparison(run, expected).defects(), SizeIs(1));
}

TEST(SameSets, AnEvictionAtTheCutLeavesOtherSets) {
  const Sequence sequence = random_sequence({.layer = 5}, 97);
  const std::string spec = "h2o:budget_tokens=11";
  const MethodRun expected = run_method(sequence, spec);
  Reasons reasons = reasons_of(sequence, spec);
  RowEvidence& by = reasons.evicted[1][0];
  const AtTheCut unit = at_the_cut(by);
  MethodRun run = expected;
  replace(run.evicted[1][0], by.begin[unit.lost], by.begin[unit.kept]);
  run.cells[2].rows[0].positions.clear();
  run.evicted[2][0].clear();
  run.alive[0].clear();
  EXPECT_FALSE(Comparison(run, expected, reasons).defects().empty());
  by.scores[unit.lost] = *by.cut();
  const Comparison near(run, expected, reasons);
  EXPECT_THAT(near.defects(), IsEmpty());
  EXPECT_EQ(near.cells_at_cut(), 1);
  run.cells[2].rows[1].positions.clear();
  EXPECT_THAT(Comparison(run, expected, reasons).defects(), SizeIs(1));
}

// One head, three blocks of four keys, of which the chunk is the last: what keeps the second one.
MethodRun run_of_blocks(bool keeps_second, float threshold) {
  CellSelection cell;
  cell.blocks = trace::BlockMasks{
      {.block_size = 4, .past_len = 8, .chunk_len = 4}, 1, {1, keeps_second, 1}, {0, 0, 1}, {}};
  cell.block_scores = BlockTable<float>(cell.blocks->grid, 1);
  cell.block_scores.row(0, 0)[0] = 0.5F;
  cell.block_scores.row(0, 0)[1] = 0.25F;
  cell.block_thresholds = {threshold};
  cell.rows = {SelectedRow{keeps_second ? Keys{0, 1, 2, 3, 4, 5, 6, 7} : Keys{0, 1, 2, 3}}};
  MethodRun run;
  run.cells.push_back(std::move(cell));
  run.evicted.emplace_back();
  return run;
}

TEST(SameSets, MayDifferInABlockAtTheThreshold) {
  Reasons none;
  none.selected.resize(1);
  none.evicted.resize(1);
  const auto compare = [&](float threshold) {
    return Comparison(run_of_blocks(true, threshold), run_of_blocks(false, threshold), none);
  };
  EXPECT_THAT(compare(0.26F).defects(), SizeIs(1));
  EXPECT_THAT(compare(0.250001F).defects(), IsEmpty());
  EXPECT_EQ(compare(0.250001F).cells_at_cut(), 1);
}

// What is called a cut's neighbourhood depends on what the scores are.
TEST(SameSets, LogitsLieAtTheCutByTheirDeviation) {
  RowEvidence by;
  by.begin = {0, 1, 2};
  by.scores = {50, 1e-3, 0.9e-3};
  by.num_kept = 2;
  EXPECT_FALSE(differ_at(by.cut(), by, {0, 1}, {0, 2}));
  by.scores[0] = -50;
  by.num_kept = 1;
  EXPECT_TRUE(differ_at(by.cut(), by, {1}, {2}));
  EXPECT_FALSE(differ_at(by.cut(), by, {1}, {0}));
  by.forced = {0, 0, 1};
  EXPECT_FALSE(differ_at(1e-3, by, {1}, {2}));
}

}  // namespace
}  // namespace kvloupe::selection::testing
