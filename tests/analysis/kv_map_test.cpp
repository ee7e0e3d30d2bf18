// The map of kept keys, state by state, on replays made by hand.
#include "core/analysis/kv_map.h"

#include "core/trace/trace_writer.h"
#include "tests/replay/small_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::analysis {
namespace {

using Ints = std::vector<std::int32_t>;

replay::ReplayCell cell(int chunk, int begin, int length, Ints positions, Ints forced = {}) {
  replay::ReplayCell result;
  result.layer = 2;
  result.chunk = chunk;
  result.span = {begin, length, trace::Phase::Prefill};
  result.num_candidates = begin;
  result.rows = {{std::move(positions), std::move(forced)}};
  result.metrics = {{0.5, 0.5, 0.25}};
  return result;
}

std::string drawn(const KvMap& map, std::size_t chunk) {
  const std::string letters = ".dekSRCAh";  // in the order of KeyState
  std::string text;
  for (std::int32_t token = 0; token < map.num_tokens; ++token)
    text += letters[static_cast<std::size_t>(map.at(chunk, token))];
  return text;
}

TEST(KvMap, ShowsVisibility) {
  replay::ReplayResult result;
  result.method = "quoka:budget_tokens=2";
  result.cells = {cell(0, 0, 3, {}), cell(1, 3, 2, {0, 1, 2}), cell(2, 5, 3, {1, 4})};
  result.cells[0].dense_reason = trace::DenseReason::EmptyPast;
  result.cells[1].dense_reason = trace::DenseReason::FitsBudget;
  const KvMap map = build_kv_map(result, 2, 0, 10);
  EXPECT_EQ(drawn(map, 0), "CCC.......");
  EXPECT_EQ(drawn(map, 1), "AAACC.....");
  EXPECT_EQ(drawn(map, 2), "dkddkCCC..");
  EXPECT_EQ(map.kept, (std::vector<std::int32_t>{0, 3, 2}));
}

// Of a trace that has the queries of some chunks alone.
TEST(KvMap, ChunksOfWhichNothingIsKnownKeepTheirRow) {
  replay::ReplayResult result;
  result.cells = {cell(1, 3, 2, {0, 2}), cell(3, 7, 3, {1, 4})};
  const KvMap map = build_kv_map(result, 2, 0, 10);
  EXPECT_EQ(drawn(map, 0), "..........");
  EXPECT_EQ(drawn(map, 1), "kdkCC.....");
  EXPECT_EQ(drawn(map, 2), "..........");
  EXPECT_EQ(drawn(map, 3), "dkddkddCCC");
  EXPECT_EQ(map.kept, (std::vector<std::int32_t>{KvMap::kUnknown, 2, KvMap::kUnknown, 2}));
  std::string known;
  for (std::size_t chunk = 0; chunk < 5; ++chunk) known += map.knows(chunk) ? 'y' : 'n';
  EXPECT_EQ(known, "nynyn");
  EXPECT_TRUE(std::isnan(map.mass_recall[2]));
  EXPECT_EQ(map.mass_recall[3], 0.5);
}

// What a window hides from all of a chunk's queries was no candidate, whatever the method.
TEST(KvMap, KeysBeyondTheWindowWereNotDropped) {
  replay::ReplayResult result;
  result.cells = {cell(0, 6, 2, {3, 5})};
  result.cells[0].first_candidate = 2;
  EXPECT_EQ(drawn(build_kv_map(result, 2, 0, 10), 0), "hhdkdkCC..");
  result.cells[0].dense_reason = trace::DenseReason::FitsBudget;
  EXPECT_EQ(drawn(build_kv_map(result, 2, 0, 10), 0), "hhAAAACC..");
  result.cells[0].dense_reason.reset();
  result.evict_chunk = {{{}}};
  EXPECT_EQ(drawn(build_kv_map(result, 2, 0, 10), 0), "hhekekCC..");
}

TEST(KvMap, TellsSinksRecentsAndTheDeadApart) {
  replay::ReplayResult result;
  result.method = "streaming_llm:budget_tokens=4,sink_tokens=2";
  result.evict_chunk = {{{}}};
  result.cells = {cell(0, 8, 2, {0, 1, 6, 7}, {0, 1, 6, 7})};
  EXPECT_EQ(drawn(build_kv_map(result, 2, 0, 10), 0), "SSeeeeRRCC");
  result.method = "snapkv:budget_tokens=4,window=2";
  result.cells = {cell(0, 8, 2, {1, 3, 6, 7}, {6, 7})};
  EXPECT_EQ(drawn(build_kv_map(result, 2, 0, 10), 0), "ekekeeRRCC");
  result.method = "a method of a later version";
  EXPECT_EQ(drawn(build_kv_map(result, 2, 0, 10), 0), "ekekeeRRCC");
}

// Block 0 is forced and the newest blocks are not: counting alone cannot tell.
TEST(KvMap, WhatIsForcedInOnePlaceIsNotPaintedInAnother) {
  replay::ReplayResult result;
  result.method = "xattention:lowering=union,block_size=2,stride=1";
  const auto map_of = [&](Ints positions, Ints forced) {
    result.cells = {cell(0, 8, 2, std::move(positions), std::move(forced))};
    return drawn(build_kv_map(result, 2, 0, 10), 0);
  };
  EXPECT_EQ(map_of({0, 1, 4, 5, 6, 7}, {0, 1}), "SSddkkkkCC");
  EXPECT_EQ(map_of({0, 1, 4, 5}, {0, 1}), "SSddkkddCC");
  EXPECT_EQ(map_of({0, 1, 4, 5, 7}, {0, 1, 7}), "SSddkkdRCC");
  EXPECT_EQ(map_of({0, 1, 6, 7}, {0, 1, 6, 7}), "SSddddRRCC");
  EXPECT_EQ(map_of({0, 1, 4, 5, 7}, {4, 5}), "kkddkkdkCC");     // of neither end
  EXPECT_EQ(map_of({2, 3, 6, 7}, {2, 3, 6, 7}), "ddkkddRRCC");  // a gap ends the newest
  EXPECT_EQ(map_of({0, 1, 4, 5, 6, 7}, {}), "kkddkkkkCC");      // not known
  const Ints all = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(map_of(all, all), "kkkkkkkkCC");  // where the one end meets the other nobody can tell
}

// The newest survivors have gaps where heavy hitters of their time have died.
TEST(KvMap, RecentsUnderEvictionFollowEachOtherInTheRow) {
  replay::ReplayResult result;
  result.method = "h2o:budget_tokens=5";
  result.evict_chunk = {{{}}};
  result.cells = {cell(0, 8, 2, {1, 3, 4, 6, 7}, {4, 6, 7})};
  EXPECT_EQ(drawn(build_kv_map(result, 2, 0, 10), 0), "ekekReRRCC");
}

// XAttention forces block 0 and the block that straddles the chunk's begin, and no other.
void expect_xattention_map(const replay::ReplayResult& result, std::int32_t num_tokens) {
  int chosen = 0;
  const KvMap map = build_kv_map(result, 1, 0, num_tokens);
  for (std::size_t chunk = 0; chunk < map.chunks.size(); ++chunk) {
    const replay::ReplayCell& cell = *result.find(1, static_cast<int>(chunk));
    if (cell.dense_reason) continue;
    ++chosen;
    const Ints& kept = cell.rows[0].positions;
    const std::int32_t past = cell.span.begin;
    for (std::int32_t j = 0; j < past; ++j) {
      const bool is_kept = std::binary_search(kept.begin(), kept.end(), j);
      const KeyState expected = j < 8               ? KeyState::Sink
                                : j >= past / 8 * 8 ? KeyState::Recent
                                : is_kept           ? KeyState::Kept
                                                    : KeyState::Dropped;
      EXPECT_EQ(map.at(chunk, j), expected) << "chunk " << chunk << ", key " << j;
    }
  }
  EXPECT_EQ(chosen, 3);
}

TEST(KvMap, BlockZeroOfXAttentionIsASinkLiveAndRecorded) {
  replay::testing::SmallTraceShape shape;
  shape.chunk_lengths = {20, 16, 16, 8};  // chunks begin at 20, 36 and 52, inside blocks of 8
  const replay::testing::SmallTrace trace(shape);
  const auto model = trace.session().shape();
  replay::ReplayRequest request;
  request.spec =
      selection::MethodSpec::parse("xattention:lowering=union,block_size=8,stride=4,tau=0.3")
          .resolved(model);
  request.want_mass = false;
  const replay::ReplayResult live = replay::replay(trace.session(), request, {});
  expect_xattention_map(live, trace.num_tokens());
  const std::string path = trace.session().info().path;
  const int run = replay::save_run(trace.session(), request.spec, live);
  const session::TraceSession again(path);
  expect_xattention_map(replay::recorded_run(again, run, {}, {}, false, false, {}),
                        trace.num_tokens());
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
