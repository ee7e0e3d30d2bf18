// The vector kernels on one row: accuracy of the exponential over its range, and the edges.
#include "core/attention/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace kvloupe::attention {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct alignas(64) Row {
  float values[64];
};

// Distance in units of the last place of the correctly rounded result.
double ulps(float got, double want) {
  const float rounded = static_cast<float>(want);
  const double unit = std::nextafter(rounded, kInfinity) - rounded;
  return std::abs(static_cast<double>(got) - want) / unit;
}

TEST(ExpRow, WithinTwoUlpOverTheWholeRange) {
  double worst = 0;
  for (double x = -87.3; x < 80; x += 0.000731 * 64) {
    Row row;
    for (int i = 0; i < 64; ++i) row.values[i] = static_cast<float>(x + 0.000731 * i);
    Row input = row;
    exp_row(row.values, 64, 0);
    for (int i = 0; i < 64; ++i) {
      worst = std::max(worst, ulps(row.values[i], std::exp(static_cast<double>(input.values[i]))));
    }
  }
  EXPECT_LT(worst, 2.0);
  EXPECT_GT(worst, 0.4);  // the measure itself works: rounding alone costs up to half a unit
}

TEST(ExpRow, Edges) {
  Row row{};
  row.values[0] = 0;
  row.values[1] = -kInfinity;
  row.values[2] = -1e30f;
  row.values[3] = -88;
  row.values[4] = std::numeric_limits<float>::quiet_NaN();
  exp_row(row.values, 16, 0);
  EXPECT_EQ(row.values[0], 1.0f);
  EXPECT_EQ(row.values[1], 0.0f);
  EXPECT_EQ(row.values[2], 0.0f);
  EXPECT_EQ(row.values[3], 0.0f);
  EXPECT_TRUE(std::isnan(row.values[4]));
}

TEST(SoftmaxRow, MaskedEntriesWeighNothing) {
  for (const int count : {16, 32, 48, 64}) {
    Row row;
    for (float& value : row.values) value = -kInfinity;
    row.values[0] = 500;
    row.values[count - 1] = 500;
    const RowSoftmax result = softmax_row(row.values, count);
    EXPECT_NEAR(result.lse, 500.6931, 1e-4) << count;  // 500 + ln 2
    EXPECT_FLOAT_EQ(result.inverse_sum, 0.5f);
    for (int i = 1; i < count - 1; ++i) EXPECT_EQ(row.values[i], 0.0f);
  }
}

TEST(AddScaled, AddsEveryEntry) {
  Row row, sums;
  for (int i = 0; i < 64; ++i) {
    row.values[i] = static_cast<float>(i);
    sums.values[i] = 1;
  }
  add_scaled(row.values, 2, sums.values, 64);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(sums.values[i], 1 + 2 * i);
}

}  // namespace
}  // namespace kvloupe::attention
