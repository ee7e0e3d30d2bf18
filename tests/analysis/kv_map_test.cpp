// The map of kept keys, state by state, on replays made by hand.
#include "core/analysis/kv_map.h"

#include <gtest/gtest.h>

namespace kvloupe::analysis {
namespace {

replay::ReplayCell cell(int chunk, int begin, int length, std::vector<std::int32_t> selected,
                        std::int64_t forced = 0) {
  replay::ReplayCell result;
  result.layer = 2;
  result.chunk = chunk;
  result.span = {begin, length, trace::Phase::Prefill};
  result.num_candidates = begin;
  replay::ReplayRow row;
  row.selected = std::move(selected);
  row.forced = forced;
  row.mass_recall = 0.5;
  result.rows = {row};
  return result;
}

std::string drawn(const KvMap& map, std::size_t chunk) {
  const std::string letters = ".dekSRCA";  // in the order of KeyState
  std::string text;
  for (std::int32_t token = 0; token < map.num_tokens; ++token)
    text += letters[static_cast<std::size_t>(map.at(chunk, token))];
  return text;
}

TEST(KvMap, ShowsVisibility) {
  replay::ReplayResult result;
  result.method = "quoka:budget_tokens=2";
  result.cells = {cell(0, 0, 3, {}), cell(1, 3, 2, {0, 1, 2}), cell(2, 5, 3, {1, 4})};
  result.cells[0].dense_reason = replay::DenseReason::EmptyPast;
  result.cells[1].dense_reason = replay::DenseReason::FitsBudget;
  const KvMap map = build_kv_map(result, 2, 0, 10);
  EXPECT_EQ(drawn(map, 0), "CCC.......");
  EXPECT_EQ(drawn(map, 1), "AAACC.....");
  EXPECT_EQ(drawn(map, 2), "dkddkCCC..");
  EXPECT_EQ(map.kept, (std::vector<std::int32_t>{0, 3, 2}));
}

TEST(KvMap, TellsSinksRecentsAndTheDeadApart) {
  replay::ReplayResult result;
  result.method = "streaming_llm:budget_tokens=4,sink_tokens=2";
  result.evict_chunk = {{{}}};
  result.cells = {cell(2, 8, 2, {0, 1, 6, 7}, 4)};
  EXPECT_EQ(drawn(build_kv_map(result, 2, 0, 10), 0), "SSeeeeRRCC");
  result.method = "snapkv:budget_tokens=4,window=2";
  result.cells = {cell(2, 8, 2, {1, 3, 6, 7}, 2)};
  EXPECT_EQ(drawn(build_kv_map(result, 2, 0, 10), 0), "ekekeeRRCC");
  result.method = "a method of a later version";
  EXPECT_EQ(drawn(build_kv_map(result, 2, 0, 10), 0), "ekekeeRRCC");
}

TEST(KvMap, ReducedCellsCountEveryKey) {
  replay::ReplayResult result;
  result.method = "quoka:budget_tokens=1";
  for (int chunk = 0; chunk < 5; ++chunk)
    result.cells.push_back(
        cell(chunk, 100 * chunk, 100,
             chunk == 3 ? std::vector<std::int32_t>{7} : std::vector<std::int32_t>{}));
  const KvMap map = build_kv_map(result, 2, 0, 500);
  const KvMapGrid grid = reduce_kv_map(map, 2, 3);
  ASSERT_EQ(grid.rows, 2);
  ASSERT_EQ(grid.cols, 3);
  std::int64_t total = 0, kept = 0;
  for (const auto& counts : grid.counts) {
    for (const std::int32_t count : counts) total += count;
    kept += counts[static_cast<std::size_t>(KeyState::Kept)];
  }
  EXPECT_EQ(total, 5 * 500);
  EXPECT_EQ(kept, 1);  // the one kept key is not lost
  EXPECT_EQ(grid.counts[3][static_cast<std::size_t>(KeyState::Kept)], 1);
  const KvMapGrid full = reduce_kv_map(map, 100, 1000);
  EXPECT_EQ(full.rows, 5);
  EXPECT_EQ(full.cols, 500);
}

TEST(KvMap, TellsAfterWhichChunkAKeyOfThisRowDied) {
  replay::ReplayResult result;
  result.method = "streaming_llm:budget_tokens=2,sink_tokens=1";
  result.layers = {1, 2};
  result.cells.push_back(cell(0, 0, 2, {}));
  result.cells.push_back(cell(1, 2, 2, {0, 1}));
  result.evict_chunk = {{{9, 9, 9, 9}}, {{trace::kAlive, 1, trace::kAlive, 0}}};
  const KvMap map = build_kv_map(result, 2, 0, 4);
  EXPECT_EQ(map.death_of(0), std::nullopt);
  EXPECT_EQ(map.death_of(1), 1);
  EXPECT_EQ(map.death_of(3), 0);
  EXPECT_EQ(map.death_of(4), std::nullopt);
  EXPECT_TRUE(deaths_in(result, 2, 1).empty()) << "no such row";
  EXPECT_TRUE(deaths_in(result, 3, 0).empty()) << "no such layer";
}

}  // namespace
}  // namespace kvloupe::analysis
