// Numbers of 16 bits and their products by a warp, as the emulator does them.
#include "core/cuda/tensor_core.cuh"

#include "core/cuda/emulator/emulator.h"
#include "tests/cuda/case_numbers.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace kvloupe::cuda {
namespace {

template <typename T>
class HalfNumbers : public ::testing::Test {};
using Types = ::testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(HalfNumbers, Types);

TYPED_TEST(HalfNumbers, AllComeBackFromFp32) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const TypeParam number{static_cast<std::uint16_t>(bits)};
    const float value = value_of(number);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(value_of(rounded_to<TypeParam>(value))));
    else
      ASSERT_EQ(rounded_to<TypeParam>(value).bits, bits);
  }
}

TYPED_TEST(HalfNumbers, WhatLiesBetweenTwoGoesToTheNearerOne) {
  // Of all neighbours, the infinite one too: a little below the middle, the middle, a little above it.
  for (std::uint16_t bits = 0; std::isfinite(value_of(TypeParam{bits})); ++bits) {
    const auto next = static_cast<std::uint16_t>(bits + 1);
    const float low = value_of(TypeParam{bits});
    // What follows the largest number would be as far from it as the one before.
    const float step = std::isfinite(value_of(TypeParam{next}))
                           ? value_of(TypeParam{next}) - low
                           : low - value_of(TypeParam{static_cast<std::uint16_t>(bits - 1)});
    const float middle = low + step / 2, most = std::numeric_limits<float>::infinity();
    EXPECT_EQ(rounded_to<TypeParam>(std::nextafter(middle, 0.0F)).bits, bits);
    EXPECT_EQ(rounded_to<TypeParam>(middle).bits, bits % 2 == 0 ? bits : next);
    EXPECT_EQ(rounded_to<TypeParam>(std::nextafter(middle, most)).bits, next);
    ASSERT_EQ(rounded_to<TypeParam>(-middle).bits, 0x8000 + (bits % 2 == 0 ? bits : next));
  }
}

TYPED_TEST(HalfNumbers, TwoOfAWordComeApartAsTheyWere) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto lower = static_cast<std::uint16_t>(bits), upper = static_cast<std::uint16_t>(~bits);
    float values[2];
    unpack<TypeParam>(lower | static_cast<unsigned>(upper) << 16, values[0], values[1]);
    if (std::isnan(values[0]) || std::isnan(values[1])) continue;
    ASSERT_EQ(values[0], value_of(TypeParam{lower}));
    ASSERT_EQ(values[1], value_of(TypeParam{upper}));
    ASSERT_EQ(pack<TypeParam>(values[0], values[1]), lower | static_cast<unsigned>(upper) << 16);
  }
}

TYPED_TEST(HalfNumbers, AWarpMultipliesMatricesFromSharedMemory) {
  // a [16, 16] by rows; b [16, 8] once by columns, as keys lie, and once by rows, as values do.
  struct Memory {
    alignas(16) std::array<std::array<TypeParam, 16>, 16> a, columns;
    alignas(16) std::array<std::array<TypeParam, 8>, 32> rows;
  } memory;
  const std::vector<float> numbers = testing::random_numbers(2 * 256, 1);
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 16; ++j) {
      memory.a[i][j] = rounded_to<TypeParam>(numbers[i * 16 + j]);
      // Column i: two matrices of 8 columns.
      memory.columns[i][j] = memory.rows[i / 8 * 16 + j][i % 8] =
          rounded_to<TypeParam>(numbers[256 + i * 16 + j]);
    }
  // [lane]: of both halves of b, from columns and from rows.
  std::array<std::array<std::array<float, 4>, 4>, 32> got{};
  EXPECT_TRUE(emulator::launch({1, 1, 1}, {32, 1, 1}, 0, [&] {
    const unsigned lane = threadIdx.x;
    const Matrices a = load_matrices(&memory.a[lane % 16][lane / 16 * 8]);
    const Matrices columns =
        load_matrices(&memory.columns[lane / 16 * 8 + lane % 8][lane / 8 % 2 * 8]);
    const Matrices rows = load_transposed(&memory.rows[lane]);
    for (std::size_t i = 0; i < 4; ++i) {
      const Matrices& b = i < 2 ? columns : rows;
      float c[4] = {1, 2, 3, 4};
      multiply_add<TypeParam>(a, b.of[i % 2 * 2], b.of[i % 2 * 2 + 1], c);
      for (std::size_t j = 0; j < 4; ++j) got[lane][i][j] = c[j];
    }
  }));
  for (std::size_t lane = 0; lane < 32; ++lane)
    for (std::size_t i = 0; i < 4; ++i)
      for (std::size_t j = 0; j < 4; ++j) {
        const std::size_t row = lane / 4 + j / 2 * 8, column = lane % 4 * 2 + j % 2 + i % 2 * 8;
        double want = 1 + static_cast<double>(j);
        for (std::size_t k = 0; k < 16; ++k)
          want += static_cast<double>(value_of(memory.a[row][k])) *
                  static_cast<double>(value_of(memory.columns[column][k]));
        EXPECT_NEAR(got[lane][i][j], want, 1e-5) << lane << ", " << i << ", " << j;
      }
}

}  // namespace
}  // namespace kvloupe::cuda
