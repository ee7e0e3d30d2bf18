// Page bounds: the golden of the paper's formula, the bound itself, and bounds kept token by token
// against bounds of all keys at once.
#include "core/selection/blocks/pages.h"
#include "core/selection/cell_rows.h"
#include "tests/selection/oracle_loops.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace kvloupe::selection::testing {
namespace {

// [1, rows, dim]
at::Tensor one_head(const std::vector<float>& values, std::int64_t dim) {
  return at::tensor(values, at::kFloat).view({1, -1, dim});
}

std::vector<float> scores_of(const std::vector<float>& keys, const std::vector<float>& query,
                             std::int64_t page_size) {
  const auto dim = static_cast<std::int64_t>(query.size());
  PageBounds bounds(page_size);
  const at::Tensor rows = one_head(keys, dim);
  bounds.extend(rows, rows.size(1));
  return on_host<float>(page_scores(one_head(query, dim), bounds.values()));
}

std::vector<float> values_of(const PageBounds& bounds) { return on_host<float>(bounds.values()); }

std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() % 2001) / 500.0F - 2.0F;
  return values;
}

// Keys (1,-2) (-1,3) | (0,1) (2,2), query (1,-1): kmax (1,3) (2,2), kmin (-1,-2) (0,1), so
// U = 1 + 2 and 2 - 1, where the best keys truly reach 3 and 0.
TEST(Pages, BoundOfTheGolden) {
  EXPECT_EQ(scores_of({1, -2, -1, 3, 0, 1, 2, 2}, {1, -1}, 2), (std::vector<float>{3, 1}));
}

TEST(Pages, ZeroAndNegativeLanesOfTheQuery) {
  // Lane 0 does not count, lane 1 takes the smallest key times -2, lane 2 the largest times 0.5.
  EXPECT_EQ(scores_of({9, 3, 4, -9, -1, 6}, {0, -2, 0.5F}, 2), (std::vector<float>{2 + 3}));
}

TEST(Pages, APartialPageScoresByItsRealTokens) {
  // The third key is alone in its page: all of its products are negative, and so is the bound.
  EXPECT_EQ(scores_of({1, 1, 2, 2, -3, -4}, {1, 1}, 2), (std::vector<float>{4, -7}));
}

TEST(Pages, KeysBeyondTheRangeOfHalfPrecisionAreBounded) {
  // An initial value of -65504 or 65504 would show here.
  EXPECT_EQ(scores_of({-1e5F, 2e5F, -3e5F, 4e5F}, {1, -1}, 2), (std::vector<float>{-3e5F}));
}

// Two equal keys, one turned by a right angle as a rotary embedding does: the bounds are those of
// the keys as cached, 1 + 1, not of the keys before, 1.
TEST(Pages, RotatedKeysAreBoundedAsCached) {
  EXPECT_EQ(scores_of({1, 0, 1, 0}, {1, 1}, 2), (std::vector<float>{1}));
  EXPECT_EQ(scores_of({1, 0, 0, 1}, {1, 1}, 2), (std::vector<float>{2}));
}

TEST(Pages, TheBoundIsAboveEveryKeyAndExactForOne) {
  const int dim = 12, tokens = 57;
  const std::vector<float> keys = random_values(static_cast<std::size_t>(dim * tokens), 1);
  const std::vector<float> query = random_values(static_cast<std::size_t>(dim), 2);
  const Row row = as_row(query.data(), dim);
  for (const int size : {1, 2, 5, 16, 64}) {
    const std::vector<float> scores = scores_of(keys, query, size);
    ASSERT_EQ(static_cast<int>(scores.size()), (tokens + size - 1) / size);
    for (int token = 0; token < tokens; ++token) {
      const double product = dot(row, as_row(keys.data() + token * dim, dim));
      EXPECT_GE(static_cast<double>(scores[token / size]), product - 1e-4);
      if (size == 1) {
        EXPECT_NEAR(static_cast<double>(scores[token]), product, 1e-4);
      }
    }
  }
}

TEST(Pages, LargerPagesHaveLargerBounds) {
  const int dim = 8;
  const std::vector<float> keys = random_values(dim * 48, 3);
  const std::vector<float> query = random_values(dim, 4);
  const auto fine = scores_of(keys, query, 4);
  const auto coarse = scores_of(keys, query, 12);
  for (std::size_t page = 0; page < fine.size(); ++page)
    EXPECT_GE(coarse[page / 3], fine[page] - 1e-4F);
}

// Token by token, in portions across page boundaries, or at once: the same bits.
TEST(Pages, AppendingIsRebuilding) {
  const int dim = 5, tokens = 41, size = 4;
  const std::vector<float> keys = random_values(static_cast<std::size_t>(dim * tokens), 5);
  const at::Tensor rows = one_head(keys, dim);
  PageBounds single(size), portions(size);
  for (int count = 1; count <= tokens; ++count) {
    single.extend(rows, count);
    if (count % 7 == 0) portions.extend(rows, count);
    PageBounds whole(size);
    whole.extend(rows, count);
    EXPECT_EQ(values_of(single), values_of(whole));
    if (count % 7 == 0) {
      EXPECT_EQ(values_of(portions), values_of(whole));
    }
  }
}

TEST(Pages, GoingBackStartsAgain) {
  const int dim = 3;
  const std::vector<float> keys = random_values(dim * 20, 6);
  const at::Tensor rows = one_head(keys, dim);
  PageBounds bounds(4), fresh(4);
  bounds.extend(rows, 20);
  bounds.extend(rows, 9);
  fresh.extend(rows, 9);
  EXPECT_EQ(bounds.grid().num_pages(), 3);
  EXPECT_EQ(values_of(bounds), values_of(fresh));
}

TEST(Pages, RowsTogetherScoreTheirLargestBound) {
  const int dim = 6;
  const std::vector<float> keys = random_values(dim * 30, 7);
  const at::Tensor queries = one_head(random_values(dim * 21, 8), dim);
  PageBounds bounds(4);
  bounds.extend(one_head(keys, dim), 30);
  std::vector<float> largest(8, -1e30F);
  for (int row = 0; row < 21; ++row) {
    const auto alone = on_host<float>(page_scores(queries.narrow(1, row, 1), bounds.values()));
    for (std::size_t page = 0; page < 8; ++page)
      largest[page] = std::max(largest[page], alone[page]);
  }
  const auto together = on_host<float>(page_scores(queries, bounds.values()));
  ASSERT_EQ(together.size(), largest.size());
  for (std::size_t page = 0; page < 8; ++page) EXPECT_NEAR(together[page], largest[page], 1e-4F);
}

}  // namespace
}  // namespace kvloupe::selection::testing
