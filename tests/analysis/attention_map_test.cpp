// Maps and rows of attention against the definition, value by value.
#include "core/analysis/attention_map.h"

#include "tests/replay/small_trace.h"

#include "core/base/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::analysis {
namespace {

using replay::testing::SmallTrace;

class AttentionOf : public ::testing::TestWithParam<bool> {
 protected:
  SmallTrace trace{{.store_lse = GetParam()}};
};

TEST_P(AttentionOf, RowsAreTheProbabilities) {
  for (const int head : {0, 3}) {
    const Matrix rows = attention_rows(trace.session(), 1, head, 10, 30, {});
    ASSERT_EQ(rows.rows, 20);
    ASSERT_EQ(rows.cols, 30);
    for (int r = 0; r < 20; ++r) {
      for (int j = 0; j < 30; ++j) {
        if (j > 10 + r) {
          EXPECT_TRUE(std::isnan(rows.at(r, j)));
        } else {
          EXPECT_NEAR(rows.at(r, j), trace.probability(1, head, 10 + r, j), 2e-6);
        }
      }
    }
  }
}

TEST_P(AttentionOf, ReducedMapIsMaximumAndMeanOfTheWhole) {
  const int tokens = trace.num_tokens();
  for (const int max_side : {1, 7, 20, 53, 400}) {
    const AttentionMap map = attention_map(trace.session(), 0, 2, max_side, {});
    const int step = static_cast<int>(map.step);
    EXPECT_EQ(step, (tokens + max_side - 1) / max_side);
    ASSERT_EQ(map.max.rows, (tokens + step - 1) / step);
    ASSERT_EQ(map.max.cols, map.max.rows);
    for (int row = 0; row < map.max.rows; ++row) {
      for (int col = 0; col < map.max.cols; ++col) {
        double largest = 0, sum = 0;
        int count = 0;
        for (int t = row * step; t < std::min((row + 1) * step, tokens); ++t) {
          for (int j = col * step; j < (col + 1) * step && j <= t; ++j) {
            const double p = trace.probability(0, 2, t, j);
            largest = std::max(largest, p);
            sum += p;
            ++count;
          }
        }
        if (count == 0) {
          EXPECT_TRUE(std::isnan(map.max.at(row, col)) && std::isnan(map.mean.at(row, col)));
        } else {
          EXPECT_NEAR(map.max.at(row, col), largest, 2e-6);
          EXPECT_NEAR(map.mean.at(row, col), sum / count, 2e-6);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(LogSumExp, AttentionOf, ::testing::Bool(),
                         [](const auto& stored) { return stored.param ? "stored" : "recomputed"; });

TEST(AttentionMap, SeveralBlocksOfQueries) {
  const SmallTrace trace(
      {.num_layers = 1, .num_q_heads = 1, .num_kv_heads = 1, .chunk_lengths = {300}});
  const AttentionMap map = attention_map(trace.session(), 0, 0, 100, {});
  EXPECT_EQ(map.step, 3);
  for (const int row : {0, 41, 42, 43, 99}) {
    double largest = 0;
    for (int t = row * 3; t < row * 3 + 3; ++t) {
      for (int j = 0; j < 3; ++j) largest = std::max(largest, trace.probability(0, 0, t, j));
    }
    EXPECT_NEAR(map.max.at(row, 0), largest, 2e-6) << row;
  }
}

TEST(AttentionMap, ACancelledJobStops) {
  const SmallTrace trace;
  CancelSource source;
  source.cancel();
  const WorkContext context{source.token(), {}};
  EXPECT_THROW(attention_map(trace.session(), 0, 0, 10, context), Error);
  EXPECT_THROW(attention_rows(trace.session(), 0, 0, 0, 3, context), Error);
}

TEST(AttentionMap, OutsideTheTraceIsAnError) {
  const SmallTrace trace;
  EXPECT_THROW(attention_map(trace.session(), 5, 0, 10, {}), Error);
  EXPECT_THROW(attention_map(trace.session(), 0, 9, 10, {}), Error);
  EXPECT_THROW(attention_rows(trace.session(), 0, 0, 50, 54, {}), Error);
}

// By the definition: the largest of the step's keys that the query sees; NaN where it sees none.
TEST(AttentionStrip, LosesNoBrightCell) {
  for (const bool store_lse : {true, false}) {
    const SmallTrace trace({.chunk_lengths = {16, 100, 5}, .store_lse = store_lse});
    const AttentionStrip strip = attention_strip(trace.session(), 1, 3, 16, 116, 40, 1, {});
    EXPECT_EQ(strip.step, 3);
    ASSERT_EQ(strip.max.rows, 100);  // more than one block of rows
    ASSERT_EQ(strip.max.cols, 39);
    EXPECT_EQ(strip.num_broken, 0);
    for (int row = 0; row < 100; ++row)
      for (int col = 0; col < 39; ++col) {
        double largest = -1;
        for (int key = 3 * col; key <= std::min(3 * col + 2, 16 + row); ++key)
          largest = std::max(largest, trace.probability(1, 3, 16 + row, key));
        if (largest < 0)
          EXPECT_TRUE(std::isnan(strip.max.at(row, col))) << row << " " << col;
        else
          EXPECT_NEAR(strip.max.at(row, col), largest, 1e-5) << row << " " << col;
      }
    const AttentionStrip whole = attention_strip(trace.session(), 1, 3, 16, 116, 4096, 1, {});
    EXPECT_EQ(whole.step, 1);
    EXPECT_EQ(whole.max.cols, 116);
    EXPECT_EQ(attention_strip(trace.session(), 1, 3, 16, 16, 40, 1, {}).max.rows, 0);
  }
  const SmallTrace trace;
  EXPECT_THROW(attention_strip(trace.session(), 0, 0, 50, 54, 40, 1, {}), Error);
}

// Every fourth query has its own values everywhere, the others of the keys that not all of them see.
TEST(AttentionStrip, ASketchAsksSomeOfTheQueriesForEarlierKeys) {
  const SmallTrace trace({.chunk_lengths = {16, 98, 5}});
  const AttentionStrip sketch = attention_strip(trace.session(), 1, 3, 16, 114, 40, 4, {});
  ASSERT_EQ(sketch.step, 3);
  // By the definition; negative where the query sees none of the keys.
  const auto largest = [&](int row, int col) {
    double most = -1;
    for (int key = 3 * col; key <= std::min(3 * col + 2, 16 + row); ++key)
      most = std::max(most, trace.probability(1, 3, 16 + row, key));
    return most;
  };
  const int past_cols = 16 / 3;
  int different = 0;
  for (int row = 0; row < 98; ++row)
    for (int col = 0; col < sketch.max.cols; ++col) {
      const double wanted = largest(col < past_cols ? row / 4 * 4 : row, col);
      if (wanted < 0)
        EXPECT_TRUE(std::isnan(sketch.max.at(row, col))) << row << " " << col;
      else
        EXPECT_NEAR(sketch.max.at(row, col), wanted, 1e-5) << row << " " << col;
      different += wanted >= 0 && std::abs(largest(row, col) - sketch.max.at(row, col)) > 1e-4;
    }
  EXPECT_GT(different, 98);  // it is a sketch
}

TEST(AttentionStrip, KeepsWhatIsNotANumber) {
  const SmallTrace trace({.store_lse = false, .broken_key_at = 20});  // layer 1, KV head 1
  const AttentionStrip strip = attention_strip(trace.session(), 1, 2, 16, 32, 8, 1, {});
  EXPECT_EQ(strip.num_broken, [] {
    int values = 0;
    for (int query = 20; query < 32; ++query) values += query + 1;
    return values;
  }());
  for (int row = 0; row < 16; ++row) EXPECT_EQ(std::isnan(strip.max.at(row, 0)), row >= 4) << row;
}

// Query 20 is the first that sees the NaN key: its values and those after it are no numbers.
TEST(Attention, CountsAndKeepsWhatIsNotANumber) {
  const SmallTrace trace({.store_lse = false, .broken_key_at = 20});  // layer 1, KV head 1
  const auto rows_of = [&](int head, int begin, int end) {
    return count_broken(attention_rows(trace.session(), 1, head, begin, end, {}), begin);
  };
  EXPECT_EQ(rows_of(2, 10, 20), 0);
  EXPECT_EQ(rows_of(2, 19, 21), 21);
  EXPECT_EQ(rows_of(2, 20, 22), 21 + 22);
  EXPECT_EQ(rows_of(1, 20, 22), 0);
  const int tokens = trace.num_tokens();
  std::int64_t all = 0;
  for (int query = 20; query < tokens; ++query) all += query + 1;
  for (const int side : {400, 20}) {
    const AttentionMap map = attention_map(trace.session(), 1, 3, side, {});
    EXPECT_EQ(map.num_broken, all);
    for (std::int64_t row = 0; row < map.max.rows; ++row)
      for (std::int64_t col = 0; col <= row; ++col)
        EXPECT_EQ(std::isnan(map.max.at(row, col)), (row + 1) * map.step > 20) << row << " " << col;
  }
  EXPECT_EQ(attention_map(trace.session(), 0, 3, 20, {}).num_broken, 0);
}

}  // namespace
}  // namespace kvloupe::analysis
