// Reassigned positions: a key rotated anew must be what the model's own rotation gives there.
#include "core/selection/lanes/reassigned_keys.h"

#include "core/base/error.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

namespace kvloupe::selection {
namespace {

constexpr int kDim = 8;

trace::ModelInfo model_with(trace::RopePairing pairing) {
  trace::ModelInfo model;
  model.num_layers = 2;
  model.num_q_heads = model.num_kv_heads = 1;
  model.head_dim = kDim;
  model.rope_theta = 500;
  model.rope_pairing = pairing;
  model.layer_types = {trace::LayerType::Full, trace::LayerType::Nope};
  return model;
}

// Rotary embedding as complex numbers: pair i turns by position * theta^(-2i/d).
void expect_rotated(const float* actual, const float* raw, int position,
                    trace::RopePairing pairing) {
  for (int i = 0; i < kDim / 2; ++i) {
    const bool together = pairing == trace::RopePairing::Interleaved;
    const int a = together ? 2 * i : i, b = together ? 2 * i + 1 : i + kDim / 2;
    const std::complex<double> turned =
        std::complex<double>(static_cast<double>(raw[a]), static_cast<double>(raw[b])) *
        std::polar(1.0, position * std::pow(500.0, -2.0 * i / kDim));
    EXPECT_NEAR(static_cast<double>(actual[a]), turned.real(), 1e-5);
    EXPECT_NEAR(static_cast<double>(actual[b]), turned.imag(), 1e-5);
  }
}

at::Tensor rotated_keys(const at::Tensor& raw, trace::RopePairing pairing) {
  at::Tensor keys = at::zeros_like(raw);
  for (int position = 0; position < raw.size(1); ++position)
    for (int i = 0; i < kDim / 2; ++i) {
      const bool together = pairing == trace::RopePairing::Interleaved;
      const int a = together ? 2 * i : i, b = together ? 2 * i + 1 : i + kDim / 2;
      const double angle = position * std::pow(500.0, -2.0 * i / kDim);
      const double x = raw[0][position][a].item<double>(), y = raw[0][position][b].item<double>();
      keys[0][position][a] = x * std::cos(angle) - y * std::sin(angle);
      keys[0][position][b] = x * std::sin(angle) + y * std::cos(angle);
    }
  return keys;
}

TEST(ReassignedKeys, KeptKeysEndRightBeforeTheChunk) {
  const auto spec = MethodSpec::parse("streaming_llm:positions=reassigned,budget_tokens=5");
  for (const auto pairing : {trace::RopePairing::Interleaved, trace::RopePairing::HalfSplit}) {
    const at::Tensor raw = at::randn({1, 24, kDim});
    const at::Tensor keys = rotated_keys(raw, pairing);
    // Past of 20; kept 0, 1, 17, 18, 19 move to 15, 16, 17, 18, 19.
    const at::Tensor seen =
        attended_keys(spec, model_with(pairing), 0, keys, 20, {{0, 1, 17, 18, 19}});
    const auto row = [](const at::Tensor& tensor, int position) {
      return tensor.const_data_ptr<float>() + position * kDim;
    };
    expect_rotated(row(seen, 0), row(raw, 0), 15, pairing);
    expect_rotated(row(seen, 1), row(raw, 1), 16, pairing);
    for (const int position : {2, 16, 17, 18, 19, 20, 23})
      EXPECT_TRUE(seen.select(1, position).equal(keys.select(1, position)));
    EXPECT_TRUE(keys.equal(rotated_keys(raw, pairing)));  // the argument itself is left alone
  }
}

TEST(ReassignedKeys, LeaveOtherMethodsAndLayersWithoutRotationAlone) {
  const at::Tensor keys = at::randn({1, 24, kDim});
  auto model = model_with(trace::RopePairing::HalfSplit);
  const auto original = MethodSpec::parse("streaming_llm:budget_tokens=5");
  const auto reassigned = MethodSpec::parse("streaming_llm:positions=reassigned,budget_tokens=5");
  const std::vector<std::vector<std::int32_t>> kept = {{0, 1, 17, 18, 19}};
  EXPECT_TRUE(attended_keys(original, model, 0, keys, 20, kept).is_same(keys));
  EXPECT_TRUE(attended_keys(MethodSpec::parse("quoka"), model, 0, keys, 20, kept).is_same(keys));
  EXPECT_TRUE(attended_keys(reassigned, model, 1, keys, 20, kept).is_same(keys));
  model.rope_scaling = R"({"rope_type":"llama3"})";
  EXPECT_THROW(attended_keys(reassigned, model, 0, keys, 20, kept), Error);
}

}  // namespace
}  // namespace kvloupe::selection
