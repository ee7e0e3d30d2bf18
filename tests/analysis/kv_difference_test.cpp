// Who kept which key, on maps made by hand.
#include "core/analysis/kv_difference.h"

#include <gtest/gtest.h>

#include <string>

namespace kvloupe::analysis {
namespace {

// Of letters in the order of KeyState: ".dekSRCAh".
KvMap map_of(const std::vector<std::string>& rows) {
  const std::string letters = ".dekSRCAh";
  KvMap map;
  map.num_tokens = static_cast<std::int32_t>(rows.front().size());
  for (const std::string& row : rows) {
    map.chunks.emplace_back();
    for (const char letter : row) map.states.push_back(static_cast<KeyState>(letters.find(letter)));
  }
  return map;
}

std::string drawn(const KvDifference& difference, std::size_t chunk) {
  std::string text;
  for (std::int32_t token = 0; token < difference.num_tokens; ++token)
    text += "-AB2 "[static_cast<std::size_t>(difference.at(chunk, token))];
  return text;
}

TEST(KvDifference, TellsTheFourClassesApart) {
  // A keeps by score, sink and recent; B evicts, and is dense in the second chunk.
  const KvMap a = map_of({"CC........", "SkddCC....", "SdkdkRCC..", "hhkddkkCCC"});
  const KvMap b = map_of({"CC........", "AAAACC....",
                          "Skeeek"
                          "CC..",
                          "hhedkkeCCC"});
  const KvDifference difference = difference_of(a, b);
  EXPECT_EQ(drawn(difference, 0), "          ");
  EXPECT_EQ(drawn(difference, 1), "22BB      ");
  EXPECT_EQ(drawn(difference, 2), "2BA-A2    ");
  EXPECT_EQ(drawn(difference, 3), "  A-B2A   ");
  EXPECT_EQ(difference.count(2, KeptBy::AOnly), 2);
  EXPECT_EQ(difference.count(2, KeptBy::BOnly), 1);
  EXPECT_EQ(difference.count(2, KeptBy::Both), 2);
  EXPECT_EQ(difference.count(2, KeptBy::Neither), 1);
  EXPECT_EQ(difference.count(2, KeptBy::NoCandidate), 4);
  EXPECT_EQ(difference.kept(2), 5);
  EXPECT_DOUBLE_EQ(difference.jaccard(2), 0.4);
  EXPECT_EQ(difference.jaccard(0), 1);  // neither keeps any
}

TEST(KvDifference, ExchangedGivesTheOtherSide) {
  const KvMap a = map_of({"SdkdkRCC"}), b = map_of({"SkeeekCC"});
  EXPECT_EQ(drawn(difference_of(b, a), 0), "2AB-B2  ");
  EXPECT_EQ(drawn(difference_of(a, a), 0), "2-2-22  ");
}

TEST(KvDifference, TheGridCountsEveryKeyOnce) {
  const KvMap a = map_of({"kkdd", "kdkd", "dddd"}), b = map_of({"kdkd", "kkdd", "kkkk"});
  const KvDifferenceGrid grid = reduce_kv_difference(difference_of(a, b), 2, 2);
  ASSERT_EQ(grid.rows, 2);
  ASSERT_EQ(grid.cols, 2);
  using Counts = std::array<std::int32_t, kNumKeptBy>;
  // The first two chunks share a row: "2A | B-" and "2B | A-".
  EXPECT_EQ(grid.counts[0], (Counts{0, 1, 1, 2, 0}));
  EXPECT_EQ(grid.counts[1], (Counts{2, 1, 1, 0, 0}));
  EXPECT_EQ(grid.counts[2], (Counts{0, 0, 2, 0, 0}));
  EXPECT_EQ(grid.counts[3], (Counts{0, 0, 2, 0, 0}));
}

}  // namespace
}  // namespace kvloupe::analysis
