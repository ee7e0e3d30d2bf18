// Nothing that is in the matrix vanishes from its coarser levels.
#include "core/analysis/pyramid.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kvloupe::analysis {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Matrix filled(std::int64_t rows, std::int64_t cols, float value) {
  return {rows, cols, std::vector<float>(rows * cols, value)};
}

TEST(Pyramid, OneSpikeAmongThousandsShowsOnEveryLevel) {
  Matrix source = filled(3001, 2003, 0.5f);
  source.values[1777 * 2003 + 1999] = 9;
  source.values[5 * 2003 + 3] = -4;
  const Pyramid pyramid = build_pyramid(source);
  ASSERT_GT(pyramid.levels.size(), 3U);
  for (const PyramidLevel& level : pyramid.levels) {
    EXPECT_EQ(level.max.at(1777 / level.row_step, 1999 / level.col_step), 9);
    EXPECT_EQ(level.min.at(5 / level.row_step, 3 / level.col_step), -4);
    EXPECT_EQ(level.max.rows, (3001 + level.row_step - 1) / level.row_step);
    EXPECT_EQ(level.max.cols, (2003 + level.col_step - 1) / level.col_step);
  }
  EXPECT_LE(pyramid.levels.back().max.rows, Pyramid::kTileSide);
  EXPECT_LE(pyramid.levels.back().max.cols, Pyramid::kTileSide);
}

TEST(Pyramid, MeanIsOverTheValuesThatExist) {
  // 257 x 257: the last cell of level 1 covers a single value.
  Matrix source = filled(257, 257, 1);
  source.values[0] = 5;  // beside 1, 1 and a NaN
  source.values[1] = kNan;
  source.values[256 * 257 + 256] = 7;
  const Pyramid pyramid = build_pyramid(source);
  ASSERT_EQ(pyramid.levels.size(), 2U);
  const PyramidLevel& level = pyramid.levels[1];
  EXPECT_FLOAT_EQ(level.mean.at(0, 0), 7.0f / 3);
  EXPECT_EQ(level.max.at(0, 0), 5);
  EXPECT_EQ(level.min.at(0, 0), 1);
  EXPECT_EQ(level.mean.at(128, 128), 7);
}

TEST(Pyramid, RaggedEdgesWeighTheirOwnCountTwoLevelsUp) {
  // One row of 1025 columns, columns 1020..1024 hold 1, 2, 3, 4, 5.
  Matrix source = filled(1, 1025, 0);
  for (int i = 0; i < 5; ++i) source.values[1020 + i] = static_cast<float>(i + 1);
  const Pyramid pyramid = build_pyramid(source);
  const PyramidLevel& level = pyramid.levels.back();
  EXPECT_EQ(level.col_step, 8);
  EXPECT_EQ(level.row_step, 1);
  EXPECT_EQ(level.mean.at(0, 127), 10.0f / 8);
  EXPECT_EQ(level.mean.at(0, 128), 5);
}

TEST(Pyramid, OnlyCellsWithoutAnyValueAreNan) {
  Matrix source = filled(512, 512, kNan);
  for (std::int64_t row = 0; row < 512; ++row) {
    for (std::int64_t col = 0; col <= row; ++col) source.values[row * 512 + col] = 0.25f;
  }
  const Pyramid pyramid = build_pyramid(source);
  const PyramidLevel& level = pyramid.levels.at(1);
  for (std::int64_t row = 0; row < 256; ++row) {
    for (std::int64_t col = 0; col < 256; ++col) {
      EXPECT_EQ(std::isnan(level.mean.at(row, col)), col > row);
      EXPECT_EQ(std::isnan(level.max.at(row, col)), col > row);
      EXPECT_EQ(std::isnan(level.min.at(row, col)), col > row);
    }
  }
}

TEST(Pyramid, AWideLowMatrixKeepsItsRows) {
  const Pyramid pyramid = build_pyramid(filled(16, 32768, 1));
  for (const PyramidLevel& level : pyramid.levels) EXPECT_EQ(level.row_step, 1);
  EXPECT_EQ(pyramid.levels.back().col_step, 128);
}

TEST(Pyramid, LevelForGivesACellPerPixel) {
  const Pyramid pyramid = build_pyramid(filled(16, 4096, 1));
  EXPECT_EQ(pyramid.level_for(0.1, 0.5).col_step, 1);  // zoomed in
  EXPECT_EQ(pyramid.level_for(0.1, 1.9).col_step, 1);
  EXPECT_EQ(pyramid.level_for(0.1, 4).col_step, 4);
  EXPECT_EQ(pyramid.level_for(0.1, 7.9).col_step, 4);
  EXPECT_EQ(pyramid.level_for(0.1, 1000).col_step, 16);
  const Pyramid square = build_pyramid(filled(1024, 1024, 1));
  EXPECT_EQ(square.level_for(4, 2).row_step, 2);
  EXPECT_EQ(square.level_for(4, 1).row_step, 1);
}

TEST(Pyramid, EmptyAndSingleValue) {
  EXPECT_EQ(build_pyramid({}).levels.size(), 1U);
  const Pyramid one = build_pyramid(filled(1, 1, 3));
  ASSERT_EQ(one.levels.size(), 1U);
  EXPECT_EQ(one.levels[0].max.at(0, 0), 3);
}

}  // namespace
}  // namespace kvloupe::analysis
