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

TEST(SoftmaxTile, MaskedEntriesWeighNothing) {
  for (const int count : {16, 32, 48, 64}) {
    Row row;
    for (float& value : row.values) value = -kInfinity;
    row.values[0] = 500;
    row.values[count - 1] = 500;
    RowState state;
    softmax_tile(row.values, count, &state);
    EXPECT_NEAR(state.lse(), 500.6931, 1e-4) << count;  // 500 + ln 2
    EXPECT_FLOAT_EQ(state.sum, 2);
    for (int i = 1; i < count - 1; ++i) EXPECT_EQ(row.values[i], 0.0f);
  }
}

TEST(SoftmaxTile, LaterTilesRescaleEarlierOnes) {
  RowState state;
  const auto tile_of = [](float value) {
    Row row;
    for (float& entry : row.values) entry = -kInfinity;
    row.values[5] = value;
    return row;
  };
  Row masked = tile_of(-kInfinity), low = tile_of(1), high = tile_of(3), middle = tile_of(2);
  EXPECT_EQ(softmax_tile(masked.values, 16, &state), 1.0f);
  EXPECT_EQ(masked.values[5], 0.0f);
  EXPECT_EQ(softmax_tile(low.values, 16, &state), 0.0f);
  EXPECT_EQ(low.values[5], 1.0f);
  EXPECT_NEAR(softmax_tile(high.values, 16, &state), 0.13533528, 1e-7);  // exp(-2)
  EXPECT_EQ(softmax_tile(middle.values, 16, &state), 1.0f);
  EXPECT_NEAR(middle.values[5], 0.36787944, 1e-7);  // exp(-1)
  EXPECT_NEAR(state.lse(), 3.4076059, 1e-6);        // ln(e + e^2 + e^3)
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
