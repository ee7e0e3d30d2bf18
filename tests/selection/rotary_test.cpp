// The rotary embedding and what undoes it.
#include "core/selection/lanes/rotary.h"
#include "core/base/error.h"
#include "core/selection/cell_rows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <random>

namespace kvloupe::selection {
namespace {

ModelShape shape_of_pairing(trace::RopePairing pairing) {
  ModelShape shape{3, 2, 1, 8};
  shape.rope_theta = 1000;
  shape.rope_pairing = pairing;
  shape.layer_types = {trace::LayerType::Full, trace::LayerType::Nope, trace::LayerType::Sliding};
  return shape;
}

// One row of one head.
at::Tensor as_rows(const std::vector<float>& values) {
  return at::tensor(values, at::kFloat).view({1, 1, -1});
}

std::vector<float> values_of(const at::Tensor& rows) { return on_host<float>(rows); }

constexpr double kThree[] = {3};

TEST(Rotary, TurnsPairsByPositionAndFrequency) {
  // theta 100, 4 channels: pair 0 turns by p, pair 1 by p/10.
  const Rotary half(100, 4, trace::RopePairing::HalfSplit);
  const std::vector<float> row = values_of(half.turned(as_rows({1, 0, 0, 2}), kThree));
  EXPECT_FLOAT_EQ(row[0], std::cos(3.0F));
  EXPECT_FLOAT_EQ(row[2], std::sin(3.0F));
  EXPECT_FLOAT_EQ(row[1], -2 * std::sin(0.3F));
  EXPECT_FLOAT_EQ(row[3], 2 * std::cos(0.3F));
  const Rotary interleaved(100, 4, trace::RopePairing::Interleaved);
  const std::vector<float> other = values_of(interleaved.turned(as_rows({1, 0, 0, 2}), kThree));
  EXPECT_FLOAT_EQ(other[0], std::cos(3.0F));
  EXPECT_FLOAT_EQ(other[1], std::sin(3.0F));
  EXPECT_FLOAT_EQ(other[2], -2 * std::sin(0.3F));
  EXPECT_FLOAT_EQ(other[3], 2 * std::cos(0.3F));
}

// Rows turned by complex numbers, in fp64, in either order of the channels.
TEST(RotaryUndo, GivesBackWhatWasBeforeTheEmbedding) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const auto pairing : {trace::RopePairing::HalfSplit, trace::RopePairing::Interleaved}) {
    const ModelShape shape = shape_of_pairing(pairing);
    const RotaryUndo undo(shape, "test");
    for (const int position : {0, 1, 63, 5000, 131071}) {
      std::vector<float> before(8), stored(8);
      for (float& value : before) value = normal(random);
      for (int i = 0; i < 4; ++i) {
        const std::complex<double> pair(before[i], before[i + 4]);
        const auto turned = pair * std::polar(1.0, position * std::pow(1000.0, -i / 4.0));
        const bool split = pairing == trace::RopePairing::HalfSplit;
        stored[split ? i : 2 * i] = static_cast<float>(turned.real());
        stored[split ? i + 4 : 2 * i + 1] = static_cast<float>(turned.imag());
      }
      const std::vector<float> back = values_of(undo.undo(as_rows(stored), position));
      for (int i = 0; i < 8; ++i) EXPECT_NEAR(back[i], before[i], 1e-6) << position;
    }
  }
}

TEST(RotaryUndo, LeavesLayersWithoutAnEmbeddingAlone) {
  const ModelShape shape = shape_of_pairing(trace::RopePairing::HalfSplit);
  EXPECT_TRUE(has_rotary(shape, 0));
  EXPECT_FALSE(has_rotary(shape, 1));
  EXPECT_TRUE(has_rotary(shape, 2));
  const RotaryUndo undo(shape, "test");
  const std::vector<float> row = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(values_of(undo.undo(as_rows(row), std::nullopt)), row);
}

TEST(RotaryUndo, RefusesScaledFrequenciesAndUnknownOnes) {
  ModelShape shape = shape_of_pairing(trace::RopePairing::HalfSplit);
  shape.rope_scaling = R"({"rope_type":"llama3"})";
  EXPECT_THROW(RotaryUndo(shape, "test"), Error);
  shape.rope_scaling = "none";
  shape.rope_theta = 0;
  EXPECT_THROW(RotaryUndo(shape, "test"), Error);
  shape.layer_types.assign(3, trace::LayerType::Nope);
  EXPECT_NO_THROW(RotaryUndo(shape, "test"));
}

}  // namespace
}  // namespace kvloupe::selection
