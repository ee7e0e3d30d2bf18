// The view heavy_tail: its table, array and numbers against plain loops over the attention.
#include "app/state/questions/how_it_works/heavy_tail.h"

#include "tests/base/matchers.h"
#include "tests/state/small_workspace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

namespace kvloupe::state {
namespace {

class HeavyTailViewTest : public testing::SmallTraceViews {
 protected:
  HeavyTailViewTest() : SmallTraceViews({.decoded = 1}) {}

  // At query head 2 of layer 1.
  void open_at(int chunk) {
    open();
    go_to("layer=1,q_head=2,chunk=" + std::to_string(chunk));
    ASSERT_EQ(problem_of_view("heavy_tail"), "");
  }
  const HeavyTailQuestion::Answer& answer() {
    const auto result = workspace_.ask(HeavyTailQuestion{workspace_.place()});
    EXPECT_TRUE(result);
    return *result;
  }
  double p(int query, int key) const { return trace_.probability(1, 2, query, key); }
  double cosine(int query, int key) const {
    const int group = trace_.shape().num_q_heads / trace_.shape().num_kv_heads;
    double dot = 0, of_query = 0, of_key = 0;
    for (int c = 0; c < trace_.shape().head_dim; ++c) {
      const double q = trace_.query(1, 2, query)[c], k = trace_.key(1, 2 / group, key)[c];
      dot += q * k;
      of_query += q * q;
      of_key += k * k;
    }
    return dot / std::sqrt(of_query * of_key);
  }

  const ViewInfo& view_ = *find_view("heavy_tail");
};

struct Row {
  int rank, index;
  double value, share, cumulative;
};
std::vector<Row> rows_of(const test::ExactTable& table, const std::string& kind) {
  std::vector<Row> rows;
  for (const auto& cells : table.rows)
    if (cells[0] == kind)
      rows.push_back({std::stoi(cells[1]), std::stoi(cells[2]), std::stod(cells[3]),
                      cells[4].empty() ? NAN : std::stod(cells[4]),
                      cells[5].empty() ? NAN : std::stod(cells[5])});
  return rows;
}

std::vector<float> values_of(const Array& array) {
  std::vector<float> values(array.bytes.size() / sizeof(float));
  std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}

TEST_F(HeavyTailViewTest, WithoutATraceItSaysSo) {
  EXPECT_EQ(view_.problem(workspace_), "Open a trace");
  EXPECT_TRUE(view_.table(workspace_).rows.empty());
  EXPECT_FALSE(view_.table(workspace_).columns.empty());
  EXPECT_TRUE(view_.array(workspace_).shape.empty());
}

TEST_F(HeavyTailViewTest, KeyMassesAreThoseOfTheLoops) {
  open_at(2);  // queries 32 to 47
  const test::ExactTable table = test::exact(view_.table(workspace_));
  EXPECT_THAT(table.columns, ElementsAre("kind", "rank", "index", "value", "share", "cumulative"));
  std::vector<double> mass(32, 0);
  for (int key = 1; key < 32; ++key)
    for (int query = 32; query < 48; ++query) mass[static_cast<std::size_t>(key)] += p(query, key);
  const double total = std::accumulate(mass.begin(), mass.end(), 0.0);
  const std::vector<Row> keys = rows_of(table, "key_mass");
  ASSERT_EQ(keys.size(), 31U);  // all past keys but position 0
  double held = 0;
  int half = 0;
  for (std::size_t r = 0; r < keys.size(); ++r) {
    const double of_key = mass[static_cast<std::size_t>(keys[r].index)];
    if (held < total / 2) ++half;
    held += of_key;
    EXPECT_EQ(keys[r].rank, static_cast<int>(r) + 1);
    EXPECT_NEAR(keys[r].value, of_key, 1e-5);
    EXPECT_NEAR(keys[r].share, of_key / total, 1e-5);
    EXPECT_NEAR(keys[r].cumulative, held / total, 1e-5);
    if (r > 0) {
      EXPECT_LE(keys[r].value, keys[r - 1].value);
    }
  }
  EXPECT_EQ(answer().keys.half, half);
  double sink = 0;
  for (int query = 32; query < 48; ++query) sink += p(query, 0);
  EXPECT_NEAR(answer().sink_share, sink / (sink + total), 1e-5);
}

TEST_F(HeavyTailViewTest, QueriesByRelevanceCarryTheirMass) {
  open_at(2);
  std::vector<double> given(16, 0);
  for (int row = 0; row < 16; ++row)
    for (int key = 1; key < 32; ++key) given[static_cast<std::size_t>(row)] += p(32 + row, key);
  const double total = std::accumulate(given.begin(), given.end(), 0.0);
  const test::ExactTable table = test::exact(view_.table(workspace_));
  const std::vector<Row> by_relevance = rows_of(table, "s_q");
  const std::vector<Row> by_mass = rows_of(table, "query_mass");
  ASSERT_EQ(by_relevance.size(), 16U);
  ASSERT_EQ(by_mass.size(), 16U);
  double held = 0;
  for (std::size_t r = 0; r < 16; ++r) {
    const double mass = given[static_cast<std::size_t>(by_relevance[r].index - 32)];
    held += mass;
    EXPECT_NEAR(by_relevance[r].share, mass / total, 1e-5);
    EXPECT_NEAR(by_relevance[r].cumulative, held / total, 1e-5);
    EXPECT_NEAR(by_mass[r].value, given[static_cast<std::size_t>(by_mass[r].index - 32)], 1e-5);
    if (r == 0) continue;
    EXPECT_LE(by_relevance[r].value, by_relevance[r - 1].value);
    EXPECT_LE(by_mass[r].value, by_mass[r - 1].value);
  }
  EXPECT_EQ(answer().quarter, 4);
  EXPECT_NEAR(answer().quarter_share, by_relevance[3].cumulative, 1e-9);
}

// Of the keys that hold half of the mass, by loops over cosines.
TEST_F(HeavyTailViewTest, TheMaximumAndTheMeanFindKeysOfTheLargestMass) {
  open_at(2);
  std::vector<std::array<double, 3>> keys;  // mass, largest score, mean score
  for (int key = 1; key < 32; ++key) {
    std::array<double, 3> numbers{0, -1, 0};
    for (int query = 32; query < 48; ++query) {
      const double score = cosine(query, key);
      numbers[0] += p(query, key);
      numbers[1] = std::max(numbers[1], score);
      numbers[2] += score;
    }
    keys.push_back(numbers);
  }
  const auto half = static_cast<std::size_t>(answer().keys.half);
  ASSERT_GT(half, 2U);
  const auto is_first = [&](std::size_t key, std::size_t by) {
    return std::count_if(keys.begin(), keys.end(), [&](const auto& other) {
             return other[by] > keys[key][by];
           }) < static_cast<std::ptrdiff_t>(half);
  };
  std::int64_t by_largest = 0, by_mean = 0;
  for (std::size_t key = 0; key < keys.size(); ++key) {
    by_largest += is_first(key, 0) && is_first(key, 1) ? 1 : 0;
    by_mean += is_first(key, 0) && is_first(key, 2) ? 1 : 0;
  }
  EXPECT_NE(by_largest, by_mean);  // or one could stand for the other
  EXPECT_EQ(answer().found_by_largest, by_largest);
  EXPECT_EQ(answer().found_by_mean, by_mean);
}

TEST_F(HeavyTailViewTest, DeviationsFollowTheRankings) {
  open_at(2);
  const test::ExactTable table = test::exact(view_.table(workspace_));
  const analysis::ScoreDeviations& deviations = answer().spread.deviations;
  std::vector<std::vector<std::string>> bins;
  for (const auto& cells : table.rows)
    if (cells[0] == "score_deviation") bins.push_back(cells);
  ASSERT_EQ(bins.size(), deviations.bins.size());
  ASSERT_FALSE(bins.empty());
  for (std::size_t i = 0; i < bins.size(); ++i) {
    EXPECT_EQ(bins[i][2], "");
    const double begin = static_cast<double>(deviations.first_bin) + static_cast<double>(i);
    EXPECT_NEAR(std::stod(bins[i][3]), begin * 0.25 * deviations.sigma, 1e-9);
    EXPECT_NEAR(std::stod(bins[i][4]), static_cast<double>(deviations.bins[i]) / (16 * 31), 1e-9);
  }
  EXPECT_NEAR(std::stod(bins.back()[5]), 1, 1e-9);
}

TEST_F(HeavyTailViewTest, TheArrayHoldsTheRowsInTheOrderAskedFor) {
  open_at(2);
  const std::vector<Row> by_relevance = rows_of(test::exact(view_.table(workspace_)), "s_q");
  const Array ordered = view_.array(workspace_);
  EXPECT_EQ(ordered.dtype, "<f4");
  EXPECT_THAT(ordered.shape, ElementsAre(16, 48));
  workspace_.cursor.set_option("heavy_tail.order", "position");
  const Array as_they_come = view_.array(workspace_);
  const std::vector<float> a = values_of(ordered), b = values_of(as_they_come);
  ASSERT_EQ(a.size(), 16U * 48);
  ASSERT_EQ(b.size(), a.size());
  for (int row = 0; row < 16; ++row)
    for (int key = 0; key < 48; ++key) {
      const int query = by_relevance[static_cast<std::size_t>(row)].index;
      const float first = a[static_cast<std::size_t>(row * 48 + key)];
      const float second = b[static_cast<std::size_t>(row * 48 + key)];
      EXPECT_EQ(std::isnan(first), key > query);
      EXPECT_EQ(std::isnan(second), key > 32 + row);
      if (key <= query) {
        EXPECT_NEAR(first, p(query, key), 1e-5);
      }
      if (key <= 32 + row) {
        EXPECT_NEAR(second, p(32 + row, key), 1e-5);
      }
    }
}

// What is drawn of a long curve is a part of it, each point where it belongs.
TEST_F(HeavyTailViewTest, LinesFallAndReachTheLastRank) {
  open_at(3);
  for (const HeavyTailQuestion::Shares* shares : {&answer().keys, &answer().queries}) {
    ASSERT_FALSE(shares->line.empty());
    EXPECT_EQ(shares->line.front().first, 1);
    EXPECT_EQ(shares->line.back().first, static_cast<double>(shares->ranking.size()));
    for (const auto& [rank, height] : shares->line)
      EXPECT_EQ(height, shares->height(static_cast<std::size_t>(rank) - 1));
  }
}

TEST_F(HeavyTailViewTest, TheFirstChunkHasRelevanceAndNoMass) {
  open_at(0);
  const test::ExactTable table = test::exact(view_.table(workspace_));
  EXPECT_FALSE(answer().has_mass());
  EXPECT_TRUE(rows_of(table, "key_mass").empty());
  const std::vector<Row> queries = rows_of(table, "s_q");
  ASSERT_EQ(queries.size(), 16U);
  EXPECT_TRUE(std::isnan(queries[0].share));  // of nothing
  EXPECT_THAT(view_.array(workspace_).shape, ElementsAre(16, 16));
}

TEST_F(HeavyTailViewTest, ADecodeStepHasOneQuery) {
  open_at(4);
  EXPECT_EQ(answer().num_queries(), 1);
  EXPECT_EQ(answer().num_keys(), 52);
  EXPECT_NEAR(answer().quarter_share, 1, 1e-12);
  EXPECT_FALSE(answer().relevance.tail);
  EXPECT_THAT(view_.array(workspace_).shape, ElementsAre(1, 54));
}

TEST_F(HeavyTailViewTest, AMethodOfALaterVersionDoesNotMatter) {
  open_at(1);
  workspace_.cursor.set_method(Slot::A, MethodChoice{"later:x=1", 0, std::nullopt});
  EXPECT_EQ(view_.problem(workspace_), "");
  EXPECT_FALSE(view_.table(workspace_).rows.empty());
}

}  // namespace
}  // namespace kvloupe::state
