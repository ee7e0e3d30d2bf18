// The kernels that block methods score by, against plain loops.
#include "core/selection/operators/kernels.h"
#include "tests/selection/sequences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::selection::testing {
namespace {

// Every row looks at the key before its own, and nowhere else.
TEST(BlockKernels, APureDiagonalIsOneSlash) {
  constexpr int kTotal = 6, kRows = 3, kDim = 8;
  std::vector<float> keys(kTotal * kDim, 0.0F), queries(kRows * kDim, 0.0F);
  for (int j = 0; j < kTotal; ++j) keys[j * kDim + j] = 1;
  std::vector<const float*> rows;
  std::vector<std::int64_t> visible;
  for (int r = 0; r < kRows; ++r) {
    const int position = kTotal - kRows + r;
    queries[r * kDim + position - 1] = 200;
    rows.push_back(queries.data() + r * kDim);
    visible.push_back(position + 1);
  }
  std::vector<float> columns(kTotal, 0.0F), slashes(kTotal, 0.0F);
  sum_columns_and_slashes(pack_rows(rows, kDim), visible, keys.data(), kTotal, 1, columns.data(),
                          slashes.data());
  EXPECT_EQ(slashes, (std::vector<float>{0, 3, 0, 0, 0, 0}));  // index (6-1)-1 = 4 from the far end
  EXPECT_EQ(columns, (std::vector<float>{0, 0, 1, 1, 1, 0}));
}

TEST(BlockKernels, ColumnsAndSlashesAgreeWithPlainLoops) {
  SequenceShape shape = {.num_q_heads = 1, .num_kv_heads = 1, .decoded = 0};
  for (const int count : {1, 5, 16, 37}) {
    shape.chunk_lengths = {50, count};
    const Sequence sequence = random_sequence(shape, 5);
    const int total = 50 + count;
    std::vector<double> columns(static_cast<std::size_t>(total), 0.0), slashes = columns;
    std::vector<const float*> rows;
    std::vector<std::int64_t> visible;
    for (int t = 50; t < total; ++t) {
      rows.push_back(sequence.query(0, t));
      visible.push_back(t + 1);
      std::vector<double> weights;
      double sum = 0;
      for (int j = 0; j <= t; ++j) {
        double product = 0;
        for (int i = 0; i < shape.head_dim; ++i)
          product += static_cast<double>(sequence.query(0, t)[i]) *
                     static_cast<double>(sequence.key(0, j)[i]);
        weights.push_back(std::exp(product * sequence.scale()));
        sum += weights.back();
      }
      for (int j = 0; j <= t; ++j) {
        columns[j] += weights[j] / sum;
        slashes[t - j] += weights[j] / sum;
      }
    }
    std::vector<float> by_key(static_cast<std::size_t>(total), 0.0F), by_distance = by_key;
    sum_columns_and_slashes(pack_rows(rows, shape.head_dim), visible, sequence.key(0, 0), total,
                            sequence.scale(), by_key.data(), by_distance.data());
    for (int j = 0; j < total; ++j) {
      EXPECT_NEAR(by_key[j], columns[j], 1e-5);
      EXPECT_NEAR(by_distance[j], slashes[j], 1e-5);
    }
  }
}

// Rows that see nothing, and a last block of rows that is not full.
TEST(BlockKernels, AJointSoftmaxIsOverRowsAndKeys) {
  const SequenceShape shape = {
      .num_q_heads = 1, .num_kv_heads = 1, .chunk_lengths = {40}, .decoded = 0};
  const Sequence sequence = random_sequence(shape, 7);
  constexpr int kKeys = 9;
  for (const int count : {1, 16, 21}) {
    std::vector<const float*> rows;
    std::vector<std::int64_t> visible;
    std::vector<std::vector<double>> logits;
    double largest = -1e300;
    for (int r = 0; r < count; ++r) {
      rows.push_back(sequence.query(0, r));
      visible.push_back(count == 1 ? kKeys : r % (kKeys + 1));
      logits.emplace_back();
      for (int j = 0; j < visible.back(); ++j) {
        double product = 0;
        for (int i = 0; i < shape.head_dim; ++i)
          product += static_cast<double>(sequence.query(0, r)[i]) *
                     static_cast<double>(sequence.key(0, j)[i]);
        logits.back().push_back(0.3 * product);
        largest = std::max(largest, 0.3 * product);
      }
    }
    std::vector<double> expected(kKeys, 0.0), sums(kKeys, -1.0);
    for (const auto& row : logits)
      for (std::size_t j = 0; j < row.size(); ++j) expected[j] += std::exp(row[j] - largest);
    joint_softmax_sums(pack_rows(rows, shape.head_dim), visible, sequence.key(0, 0), kKeys, 0.3,
                       sums.data());
    for (int j = 0; j < kKeys; ++j) EXPECT_NEAR(sums[j], expected[j], 1e-5) << count;
  }
}

}  // namespace
}  // namespace kvloupe::selection::testing
