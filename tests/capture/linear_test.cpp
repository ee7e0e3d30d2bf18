// Projections in each compute type against plain loops over numbers rounded by hand: on the packed
// path where this processor has one, and on the widened path that others take.
#include "capture/model/linear.h"
#include "core/device/device.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace kvloupe::capture {
namespace {

// To the nearest number of `digits` binary digits, ties to even (normal numbers).
double rounded(double value, int digits) {
  if (value == 0) return 0;
  const double unit = std::ldexp(1.0, std::ilogb(value) + 1 - digits);
  return std::nearbyint(value / unit) * unit;
}
int digits_of(ComputeType type) {
  switch (type) {
    case ComputeType::Fp32: return 24;
    case ComputeType::Bf16: return 8;
    case ComputeType::Fp16: return 11;
  }
  return 0;
}

class Linear : public ::testing::TestWithParam<ComputeType> {
 protected:
  Linear() {
    at::manual_seed(7);
    x = at::randn({5, 96});
    weight = at::randn({40, 96});
    bias = at::randn({40});
  }

  // Sums of products of rounded numbers, in fp64.
  double sum(std::int64_t row, std::int64_t out) const {
    const int digits = digits_of(GetParam());
    double sum = 0;
    for (std::int64_t i = 0; i < x.size(1); ++i)
      sum +=
          rounded(x[row][i].item<float>(), digits) * rounded(weight[out][i].item<float>(), digits);
    return sum;
  }
  // Sums in fp32 may fall on either side of the middle between two numbers of the type.
  void expect_projected(const at::Tensor& result, bool with_bias) const {
    ASSERT_EQ(result.scalar_type(), at::kFloat);
    const int digits = digits_of(GetParam());
    for (std::int64_t row = 0; row < x.size(0); ++row)
      for (std::int64_t out = 0; out < weight.size(0); ++out) {
        const double exact = sum(row, out);
        const double added = with_bias ? bias[out].item<double>() : 0;
        const double got = result[row][out].item<double>() - added;
        const double unit = std::ldexp(1.0, std::ilogb(exact) + 1 - digits);
        EXPECT_NEAR(got, exact, 0.501 * unit + 2e-5) << row << ", " << out;
        if (with_bias) continue;
        EXPECT_EQ(got, rounded(got, digits)) << row << ", " << out;
      }
  }

  at::Tensor x, weight, bias;
};

TEST_P(Linear, PackedProductsAreThoseOfRoundedNumbers) {
  const at::Tensor packed = pack_projection(weight, GetParam());
  EXPECT_EQ(packed.is_mkldnn(), device::multiplies(GetParam()));
  EXPECT_EQ(packed.scalar_type(), scalar_type(GetParam()));
  expect_projected(project(x, packed), false);
  expect_projected(project(x, packed, bias), true);
}

TEST_P(Linear, WidenedProductsAreThoseOfRoundedNumbers) {
  const at::Tensor plain = weight.to(scalar_type(GetParam()));
  expect_projected(project(x, plain), false);
  expect_projected(project(x, plain, bias), true);
}

TEST_P(Linear, UnroundedSumsKeepTheirDigits) {
  const at::Tensor plain = weight.to(scalar_type(GetParam()));
  const at::Tensor result = project_unrounded(x, plain);
  for (std::int64_t row = 0; row < x.size(0); ++row)
    for (std::int64_t out = 0; out < weight.size(0); ++out)
      EXPECT_NEAR(result[row][out].item<double>(), sum(row, out), 2e-5);
}

// More rows of weights than are widened at once, and not a multiple of them.
TEST_P(Linear, LongWeightsAreWidenedInSteps) {
  const at::Tensor wide = at::randn({301, 4096}), rows = at::randn({2, 4096});
  const at::Tensor plain = wide.to(scalar_type(GetParam()));
  const at::Tensor want =
      at::mm(rows.to(plain.scalar_type()).to(at::kDouble), plain.to(at::kDouble).t());
  EXPECT_LT((project_unrounded(rows, plain) - want).abs().max().item<double>(), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(All, Linear,
                         ::testing::Values(ComputeType::Fp32, ComputeType::Bf16,
                                           ComputeType::Fp16));

}  // namespace
}  // namespace kvloupe::capture
