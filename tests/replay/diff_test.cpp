// Two selections against each other: sets counted by hand, tokens aligned as a plain table does.
#include "core/replay/diff.h"

#include "core/replay/token_alignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace kvloupe::replay {
namespace {

using Ints = std::vector<std::int32_t>;

// By the recurrence of the textbook.
std::int64_t plain_length(const Ints& a, const Ints& b) {
  std::vector<std::vector<std::int64_t>> table(a.size() + 1,
                                               std::vector<std::int64_t>(b.size() + 1, 0));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < b.size(); ++j)
      table[i + 1][j + 1] =
          a[i] == b[j] ? table[i][j] + 1 : std::max(table[i][j + 1], table[i + 1][j]);
  return table[a.size()][b.size()];
}

std::int64_t checked_count(const Ints& a, const Ints& b) {
  const Ints partners = align_tokens(a, b, {});
  EXPECT_EQ(partners.size(), a.size());
  std::int32_t last = -1;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < partners.size(); ++i) {
    if (partners[i] < 0) continue;
    EXPECT_GT(partners[i], last);
    last = partners[i];
    EXPECT_EQ(a[i], b.at(static_cast<std::size_t>(last)));
    ++count;
  }
  return count;
}

TEST(AlignTokens, ByHand) {
  EXPECT_EQ(align_tokens({1, 2, 3, 4}, {1, 2, 3, 4}, {}), (Ints{0, 1, 2, 3}));
  EXPECT_EQ(align_tokens({1, 2, 3, 4}, {1, 9, 3, 4}, {}), (Ints{0, -1, 2, 3}));
  EXPECT_EQ(align_tokens({1, 5, 6, 2}, {1, 2}, {}), (Ints{0, -1, -1, 1}));
  EXPECT_EQ(align_tokens({7, 8, 1, 2}, {1, 2, 7}, {}), (Ints{-1, -1, 0, 1}));
  EXPECT_EQ(align_tokens({1, 2}, {3, 4}, {}), (Ints{-1, -1}));
  EXPECT_EQ(align_tokens({1, 2}, {}, {}), (Ints{-1, -1}));
  EXPECT_TRUE(align_tokens({}, {1}, {}).empty());
}

TEST(AlignTokens, IsAsLongAsThePlainTableSays) {
  std::mt19937 random(7);
  for (const int words : {2, 4, 30, 500})
    for (const int length : {1, 5, 63, 64, 65, 130, 300})
      for (int turn = 0; turn < 4; ++turn) {
        SCOPED_TRACE(::testing::Message() << words << " words, " << length << " tokens");
        std::uniform_int_distribution<int> word(0, words - 1), more(0, length);
        Ints a(static_cast<std::size_t>(length)), b(static_cast<std::size_t>(more(random)));
        for (std::int32_t& token : a) token = word(random);
        for (std::int32_t& token : b) token = word(random);
        EXPECT_EQ(checked_count(a, b), plain_length(a, b));
      }
}

trace::CellRecord cell_of(std::vector<Ints> rows, std::int64_t candidates) {
  trace::CellRecord cell;
  for (Ints& positions : rows) cell.rows.push_back({std::move(positions)});
  cell.num_candidates = candidates;
  return cell;
}

TEST(CountKeys, ByHand) {
  const trace::CellRecord a = cell_of({{0, 2, 3, 7, 9}, {}}, 10);
  const trace::CellRecord b = cell_of({{1, 2, 7, 8}, {}}, 10);
  DiffRow row;
  count_keys(a, b, same_keys(10), row);
  EXPECT_EQ(row.both, 2);
  EXPECT_EQ(row.only_a, 3);
  EXPECT_EQ(row.only_b, 2);
  EXPECT_DOUBLE_EQ(row.jaccard(), 2.0 / 7);
  EXPECT_EQ(row.first_only_a, (Ints{0, 3, 9}));
  EXPECT_EQ(row.first_only_b, (Ints{1, 8}));
  DiffRow empty;
  empty.row = 1;
  count_keys(a, b, same_keys(10), empty);
  EXPECT_EQ(empty.jaccard(), 1);
  EXPECT_FALSE(empty.differs());
}

TEST(CountKeys, LooksAtCandidatesOfBothAlone) {
  DiffRow row;  // as of scopes `all` and `past`: 8 and 9 are no candidates of B
  count_keys(cell_of({{1, 8, 9}}, 10), cell_of({{1, 2}}, 8), same_keys(10), row);
  EXPECT_EQ(row.both, 1);
  EXPECT_EQ(row.only_a, 0);
  EXPECT_EQ(row.only_b, 1);
}

TEST(CountKeys, OfTwoTracesComparesAlignedKeys) {
  // A's 1, 2, 3, 4 are B's 2, 3, 4, 5; A's 0 and B's 0, 1 are alone.
  const Ints tokens_a{10, 1, 2, 3, 4}, tokens_b{20, 21, 1, 2, 3, 4};
  const KeyPairs pairs = paired_keys(tokens_a, tokens_b, {});
  ASSERT_EQ(pairs.count, 4);
  DiffRow row;
  count_keys(cell_of({{0, 1, 2, 4}}, 5), cell_of({{0, 2, 4}}, 6), pairs, row);
  EXPECT_EQ(row.both, 1);    // 1 and 2
  EXPECT_EQ(row.only_a, 2);  // 2 and 4
  EXPECT_EQ(row.only_b, 1);  // 4 of B, which is 3 of A
  EXPECT_EQ(row.first_only_a, (Ints{2, 4}));
  EXPECT_EQ(row.first_only_b, (Ints{4}));
}

TEST(PairedChunks, HoldMostOfTheTokens) {
  using trace::ChunkInfo;
  const std::vector<ChunkInfo> a{{0, 3, {}}, {3, 2, {}}}, b{{0, 2, {}}, {2, 4, {}}, {6, 1, {}}};
  // A's tokens 0 to 2 are B's 1 to 3; 3 and 4 have no partner.
  const KeyPairs pairs = paired_keys({1, 2, 3, 8, 9}, {7, 1, 2, 3, 4, 5, 6}, {});
  EXPECT_EQ(paired_chunks(a, b, pairs), (std::vector<int>{1, -1}));
}

TEST(FinerLayout, IsThatOfTheSmallerRows) {
  using trace::RowAxis;
  const selection::RowLayout kv{RowAxis::KvHead, 6}, q{RowAxis::QHead, 1};
  const selection::RowLayout three{RowAxis::Subgroup, 3}, four{RowAxis::Subgroup, 4};
  EXPECT_EQ(finer_layout(kv, q)->axis, RowAxis::QHead);
  EXPECT_EQ(finer_layout(q, kv)->q_heads_per_row, 1);
  EXPECT_EQ(finer_layout(three, kv)->axis, RowAxis::Subgroup);
  EXPECT_FALSE(finer_layout(three, four).has_value());
}

TEST(SplitRows, RepeatsARowForItsParts) {
  ReplayResult result;
  result.q_heads_per_row = 2;
  static_cast<trace::CellRecord&>(result.cells.emplace_back()) = cell_of({{1}, {2, 3}}, 5);
  split_rows(result, {trace::RowAxis::QHead, 1});
  ASSERT_EQ(result.cells[0].rows.size(), 4U);
  EXPECT_EQ(result.cells[0].rows[1].positions, (Ints{1}));
  EXPECT_EQ(result.cells[0].rows[2].positions, (Ints{2, 3}));
  EXPECT_EQ(result.q_heads_per_row, 1);
}

TEST(FirstDivergence, IsTheEarliestChunkThenLayerThenRow) {
  const auto row = [](int layer, int chunk, int index, std::int64_t only_a) {
    DiffRow made;
    made.layer = layer;
    made.chunk = chunk;
    made.row = index;
    made.only_a = only_a;
    return made;
  };
  Diff diff;
  EXPECT_EQ(diff.first_divergence(), nullptr);
  diff.rows = {row(0, 0, 0, 0), row(0, 2, 0, 5), row(1, 1, 1, 2), row(1, 1, 0, 0), row(2, 1, 0, 9)};
  const DiffRow* first = diff.first_divergence();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->layer, 1);
  EXPECT_EQ(first->chunk, 1);
  EXPECT_EQ(first->row, 1);
}

}  // namespace
}  // namespace kvloupe::replay
