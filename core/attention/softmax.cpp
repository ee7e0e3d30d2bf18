// Compiled once per instruction set: foreach_target.h includes this file again for each of them.
#include "core/attention/softmax.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/attention/softmax.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kvloupe::attention::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// At most kRowAlign lanes, so that a padded row is a whole number of vectors on every target.
using Float = hn::CappedTag<float, kRowAlign>;
using Vec = hn::Vec<Float>;
using Int = hn::RebindToSigned<Float>;

// exp(x) for x <= about 88, within 1 ulp; below -87.33, where the result would be subnormal, it is
// 0. x = n ln2 + r with |r| <= ln2/2, exp(x) = 2^n exp(r); the polynomial is the minimax fit of
// (exp(r) - 1 - r) / r^2 to 3e-9 relative to exp(r). NaN stays NaN.
HWY_INLINE Vec exp_vec(Float d, Vec x) {
  const auto n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504088896341f)));
  // ln2 in two parts: n times the first is exact.
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  auto p = hn::Set(d, 0x1.6a23cep-10f);
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.123a2p-7f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.5558f2p-5f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.555492p-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.fffffcp-2f));
  p = hn::MulAdd(p, hn::Mul(r, r), r);
  p = hn::Add(p, hn::Set(d, 1.0f));
  const auto bits = hn::ShiftLeft<23>(hn::ConvertTo(Int(), n));
  const auto result = hn::BitCast(d, hn::Add(hn::BitCast(Int(), p), bits));
  // Keeps NaN: a comparison with NaN is false.
  const auto kept = hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.33f)), result);
  return hn::IfThenElse(hn::Eq(x, x), kept, x);
}

HWY_INLINE float row_max(Float d, const float* row, std::int64_t count) {
  const std::int64_t lanes = hn::Lanes(d);
  auto a = hn::Load(d, row), b = a;
  std::int64_t i = lanes;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    a = hn::Max(a, hn::Load(d, row + i));
    b = hn::Max(b, hn::Load(d, row + i + lanes));
  }
  for (; i < count; i += lanes) a = hn::Max(a, hn::Load(d, row + i));
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(a, b)));
}

void softmax_tile_kernel(float* row, std::int64_t count, float max, float* tile_sum) {
  const Float d;
  const std::int64_t lanes = hn::Lanes(d);
  const auto shift = hn::Set(d, max);
  auto sum_a = hn::Zero(d), sum_b = sum_a;
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto a = exp_vec(d, hn::Sub(hn::Load(d, row + i), shift));
    const auto b = exp_vec(d, hn::Sub(hn::Load(d, row + i + lanes), shift));
    hn::Store(a, d, row + i);
    hn::Store(b, d, row + i + lanes);
    sum_a = hn::Add(sum_a, a);
    sum_b = hn::Add(sum_b, b);
  }
  for (; i < count; i += lanes) {
    const auto a = exp_vec(d, hn::Sub(hn::Load(d, row + i), shift));
    hn::Store(a, d, row + i);
    sum_a = hn::Add(sum_a, a);
  }
  *tile_sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum_a, sum_b)));
}

void row_max_kernel(const float* row, std::int64_t count, float* max) {
  *max = row_max(Float(), row, count);
}

void add_scaled_kernel(const float* row, float factor, float* sums, std::int64_t count) {
  const Float d;
  const std::int64_t lanes = hn::Lanes(d);
  const auto scale = hn::Set(d, factor);
  for (std::int64_t i = 0; i < count; i += lanes) {
    hn::Store(hn::MulAdd(hn::Load(d, row + i), scale, hn::Load(d, sums + i)), d, sums + i);
  }
}

void exp_row_kernel(float* row, std::int64_t count, float shift) {
  const Float d;
  const std::int64_t lanes = hn::Lanes(d);
  const auto offset = hn::Set(d, shift);
  for (std::int64_t i = 0; i < count; i += lanes) {
    hn::Store(exp_vec(d, hn::Sub(hn::Load(d, row + i), offset)), d, row + i);
  }
}

void cap_row_kernel(float* row, std::int64_t count, float softcap) {
  const Float d;
  const std::int64_t lanes = hn::Lanes(d);
  const auto cap = hn::Set(d, softcap), inverse = hn::Set(d, 1 / softcap);
  for (std::int64_t i = 0; i < count; i += lanes) {
    hn::Store(hn::Mul(cap, hn::Tanh(d, hn::Mul(hn::Load(d, row + i), inverse))), d, row + i);
  }
}

}  // namespace kvloupe::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvloupe::attention {

HWY_EXPORT(row_max_kernel);
HWY_EXPORT(softmax_tile_kernel);
HWY_EXPORT(add_scaled_kernel);
HWY_EXPORT(exp_row_kernel);
HWY_EXPORT(cap_row_kernel);

// In double: max and log(sum) are each rounded once, their sum once more.
float RowState::lse() const {
  return static_cast<float>(static_cast<double>(max) + std::log(static_cast<double>(sum)));
}

float softmax_tile(float* row, std::int64_t count, RowState* state) {
  float tile_max = 0, tile_sum = 0;
  HWY_DYNAMIC_DISPATCH(row_max_kernel)(row, count, &tile_max);
  const float max = tile_max > state->max ? tile_max : state->max;
  if (max == -std::numeric_limits<float>::infinity()) {  // nothing visible so far
    std::fill(row, row + count, 0.0f);
    return 1;
  }
  HWY_DYNAMIC_DISPATCH(softmax_tile_kernel)(row, count, max, &tile_sum);
  const float factor = std::exp(state->max - max);
  state->sum = state->sum * factor + tile_sum;
  state->max = max;
  return factor;
}

void add_scaled(const float* row, float factor, float* sums, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(add_scaled_kernel)(row, factor, sums, count);
}

void cap_row(float* row, std::int64_t count, float softcap) {
  HWY_DYNAMIC_DISPATCH(cap_row_kernel)(row, count, softcap);
}

void exp_row(float* row, std::int64_t count, float shift) {
  HWY_DYNAMIC_DISPATCH(exp_row_kernel)(row, count, shift);
}

}  // namespace kvloupe::attention
#endif  // HWY_ONCE
