// Sets of keys: against std::set of the same positions.
#include "core/trace/key_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

namespace kvloupe::trace {
namespace {

using ::testing::ElementsAre;

TEST(KeySet, IsWhatAPlainSetOfItsPositionsIs) {
  std::mt19937 random(7);
  const auto upto = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  for (int round = 0; round < 300; ++round) {
    std::vector<std::int32_t> picked;
    for (int i = upto(30); i > 0; --i) picked.push_back(upto(60));
    const std::set<std::int32_t> plain(picked.begin(), picked.end());
    const KeySet set = KeySet::of(picked);
    ASSERT_EQ(set.size(), std::ssize(plain));
    ASSERT_EQ(set.empty(), plain.empty());
    ASSERT_EQ(set.positions_in(0, 100), std::vector(plain.begin(), plain.end()));
    if (!plain.empty()) {
      ASSERT_EQ(set.first(), *plain.begin());
      ASSERT_EQ(set.bound(), *plain.rbegin() + 1);
    }
    for (std::size_t i = 1; i < set.ranges().size(); ++i)
      ASSERT_GT(set.ranges()[i].begin, set.ranges()[i - 1].end) << "they touch";
    const int begin = upto(70) - 5, end = upto(70) - 5;
    const auto inside = std::count_if(plain.begin(), plain.end(),
                                      [&](int key) { return key >= begin && key < end; });
    ASSERT_EQ(set.count_in(begin, end), inside) << begin << " " << end;
    ASSERT_EQ(set.meets(begin, end), inside > 0);
    ASSERT_EQ(std::ssize(set.positions_in(begin, end)), inside);
    for (int key = -2; key < 64; ++key) ASSERT_EQ(set.contains(key), plain.count(key) == 1) << key;
    ASSERT_EQ(KeySet::of(set.ranges()), set);
  }
}

TEST(KeySet, SaysItsRanges) {
  EXPECT_EQ(KeySet(40, 53).text(), "40-52");
  EXPECT_EQ(KeySet::of(std::vector{60, 3, 41, 40, 60}).text(), "3+40-41+60");
  EXPECT_EQ(KeySet().text(), "");
  EXPECT_TRUE(KeySet(40, 53).is(40, 53));
  EXPECT_FALSE(KeySet(40, 53).is(40, 52));
  EXPECT_FALSE(KeySet::of(std::vector{40, 52}).is(40, 53));
}

TEST(KeySet, HoldsNothingThatIsNoPosition) {
  EXPECT_TRUE(KeySet(-1, -1).empty());
  EXPECT_TRUE(KeySet(5, 5).empty());
  EXPECT_TRUE(KeySet(7, 3).empty());
  EXPECT_THAT(KeySet::of(std::vector{-1, 2, -1}).positions_in(-5, 9), ElementsAre(2));
  EXPECT_EQ(KeySet().first(), -1);
  EXPECT_EQ(KeySet().bound(), -1);
  EXPECT_TRUE(KeySet().ranges().empty());
}

}  // namespace
}  // namespace kvloupe::trace
