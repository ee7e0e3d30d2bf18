// The averages of a method against plain loops over the stored Q and K, and which methods averaged
// the same cells.
#include "core/analysis/method_averages.h"

#include "core/base/error.h"
#include "core/trace/trace_writer.h"
#include "tests/replay/small_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace kvloupe::analysis {
namespace {

using replay::CellSet;
using replay::CompareRow;
using replay::Number;
using replay::testing::SmallTrace;
using replay::testing::SmallTraceShape;

// Chunks begin at 0, 16, 32, 48; two tokens are decoded after 53.
SmallTraceShape shape() { return {.decoded = 2}; }

MethodAverages averages_of(const SmallTrace& trace, const std::string& spec,
                           const std::vector<int>& layers = {0, 1}) {
  return average(
      trace.session(),
      replay::choice_anew(selection::MethodSpec::parse(spec).resolved(trace.session().shape())),
      layers, {}, {});
}

// The keys that a method keeps of a chunk's past.
using Kept = std::function<std::vector<int>(const std::vector<double>& mass, int past)>;

std::vector<int> newest(const std::vector<double>&, int past) {
  return {past - 4, past - 3, past - 2, past - 1};
}
std::vector<int> heaviest(const std::vector<double>& mass, int past) {
  std::vector<int> keys(static_cast<std::size_t>(past));
  std::iota(keys.begin(), keys.end(), 0);
  std::stable_sort(keys.begin(), keys.end(), [&](int a, int b) {
    return mass[static_cast<std::size_t>(a)] > mass[static_cast<std::size_t>(b)];
  });
  keys.resize(20);
  return keys;
}

struct Expected {
  double recall = 0, density = 0;
  int cells = 0;
};

// Means over the chunks with more past keys than the budget.
Expected expected_of(const SmallTrace& trace, trace::Phase phase, int budget, const Kept& kept_of) {
  Expected sum;
  for (int layer = 0; layer < 2; ++layer)
    for (const trace::ChunkInfo& chunk : trace.session().info().chunks)
      for (int kv_head = 0; kv_head < 2; ++kv_head) {
        if (chunk.phase != phase || chunk.begin <= budget) continue;
        const std::vector<double> mass = trace.mass(layer, kv_head, chunk.begin, chunk.end());
        double kept = 0, all = 0;
        for (const int key : kept_of(mass, chunk.begin))
          kept += mass[static_cast<std::size_t>(key)];
        for (int key = 0; key < chunk.begin; ++key) all += mass[static_cast<std::size_t>(key)];
        sum.recall += kept / all;
        sum.density += static_cast<double>(budget) / chunk.begin;
        ++sum.cells;
      }
  return {sum.recall / sum.cells, sum.density / sum.cells, sum.cells};
}

constexpr trace::Phase kPrefill = trace::Phase::Prefill, kDecode = trace::Phase::Decode;

void expect_equal(const CompareRow& means, const Expected& expected, int budget) {
  EXPECT_EQ(means.cells, expected.cells);
  EXPECT_NEAR(means.numbers[Number::MassRecall].value_or(-1), expected.recall, 1e-5);
  EXPECT_NEAR(means.numbers[Number::Density].value_or(-1), expected.density, 1e-12);
  EXPECT_EQ(means.numbers[Number::EffectiveBudget], budget);
  EXPECT_EQ(means.numbers[Number::KvBytes], budget * 2.0 * 8 * 4);  // K and V, head_dim, fp32
}

TEST(MethodAverages, AreThoseOfPlainLoops) {
  const SmallTrace trace(shape());
  const MethodAverages averages = averages_of(trace, "oracle:budget_tokens=20");
  expect_equal(averages.means(kPrefill), expected_of(trace, kPrefill, 20, heaviest), 20);
  EXPECT_EQ(averages.all_cells(kPrefill), 2 * 4 * 2);  // layers, chunks, KV heads
  // The first chunk has no past, the second one of 16 keys: both are dense, in both layers.
  EXPECT_EQ(averages.cells(kPrefill), (CellSet{{0, 2}, {0, 3}, {1, 2}, {1, 3}}));
  EXPECT_EQ(averages.means(kPrefill).fallback_cells, 2 * 2 * 2);
  expect_equal(averages.means(kDecode), expected_of(trace, kDecode, 20, heaviest), 20);
  EXPECT_EQ(averages.cells(kDecode), (CellSet{{0, 4}, {0, 5}, {1, 4}, {1, 5}}));
}

TEST(MethodAverages, AmongFewerCellsAreOfTheseAlone) {
  const SmallTrace trace(shape());
  const MethodAverages averages = averages_of(trace, "oracle:budget_tokens=10");
  // Chunks 1 (16 keys) to 3 are its own. Of chunks 2 and 3, by a budget that leaves chunk 1 dense:
  const CellSet later{{0, 2}, {0, 3}, {1, 2}, {1, 3}, {9, 9}};
  const CompareRow all = averages.means(kPrefill), fewer = averages.means(kPrefill, &later);
  EXPECT_EQ(all.cells, 3 * 2 * 2);
  EXPECT_EQ(fewer.cells, 2 * 2 * 2);
  EXPECT_NEAR(all.numbers[Number::Density].value_or(-1), (10.0 / 16 + 10.0 / 32 + 10.0 / 48) / 3,
              1e-12);
  EXPECT_NEAR(fewer.numbers[Number::Density].value_or(-1), (10.0 / 32 + 10.0 / 48) / 2, 1e-12);
  const CellSet none;
  EXPECT_EQ(averages.means(kPrefill, &none).cells, 0);
  EXPECT_FALSE(averages.means(kPrefill, &none).numbers[Number::MassRecall].has_value());
}

TEST(MethodAverages, DenseChoosesNowhereAndIsNotAsked) {
  const SmallTrace trace(shape());
  EXPECT_FALSE(averages_of(trace, "dense").cells(kPrefill).has_value());
  EXPECT_EQ(averages_of(trace, "quest:page_size=4,budget_tokens=8", {0}).cells(kPrefill),
            CellSet{});
}

TEST(MethodAverages, OfAWatchedSpanAreTheKeysKept) {
  const SmallTrace trace(shape());
  const auto spec = selection::MethodSpec::parse("sliding_window:budget_tokens=10");
  // Of [20, 40) chunk 2 (32 keys) sees twelve and keeps 22 to 31; chunk 3 (48) keeps 38 and 39.
  const MethodAverages averages =
      average(trace.session(), replay::choice_anew(spec.resolved(trace.session().shape())), {0},
              {.watched = replay::WatchedKeys{{20, 40}}}, {});
  EXPECT_NEAR(averages.means(kPrefill).numbers[Number::SpanKept].value_or(-1),
              (10.0 / 12 + 2.0 / 20) / 2, 1e-12);
  const MethodAverages last =
      average(trace.session(), replay::choice_anew(spec.resolved(trace.session().shape())), {0},
              {.chunks = {3}, .watched = replay::WatchedKeys{{20, 40}}}, {});
  EXPECT_NEAR(last.means(kPrefill).numbers[Number::SpanKept].value_or(-1), 2.0 / 20, 1e-12);
  EXPECT_EQ(last.all_cells(kPrefill), 2);  // a row for each KV head
}

TEST(MethodAverages, AreThoseOfCompare) {
  const SmallTrace trace(shape());
  for (const char* text :
       {"quoka:budget_tokens=8,num_queries=4", "snapkv:budget_tokens=12,window=4", "dense",
        "flash_prefill:lowering=union,block_size=4", "aqua:basis=self",
        "tidal_decode:budget_tokens=8"}) {
    SCOPED_TRACE(text);
    const auto spec = selection::MethodSpec::parse(text).resolved(trace.session().shape());
    replay::ReplayRequest request;
    request.want_output_error = true;
    const auto compared = replay::compare_methods(trace.session(), {spec}, request, {}, {});
    const MethodAverages averages =
        average(trace.session(), replay::choice_anew(spec), {0, 1}, {}, {});
    for (const CompareRow& row : compared.rows) {
      if (row.scope != "all") continue;
      const CompareRow means = averages.means(row.phase == "prefill" ? kPrefill : kDecode);
      EXPECT_EQ(means.phase, row.phase);
      EXPECT_EQ(means.scope, row.scope);
      EXPECT_EQ(means.numbers[Number::Gap], row.numbers[Number::Gap]);
      EXPECT_EQ(means.method, row.method);
      EXPECT_EQ(means.cells, row.cells);
      EXPECT_EQ(means.fallback_cells, row.fallback_cells);
      EXPECT_EQ(means.numbers[Number::RequestedBudget], row.numbers[Number::RequestedBudget]);
      EXPECT_EQ(means.numbers[Number::EffectiveBudget], row.numbers[Number::EffectiveBudget]);
      EXPECT_EQ(means.numbers[Number::MassRecall], row.numbers[Number::MassRecall]);
      EXPECT_EQ(means.numbers[Number::TopkOverlap], row.numbers[Number::TopkOverlap]);
      EXPECT_EQ(means.numbers[Number::OutputError], row.numbers[Number::OutputError]);
      EXPECT_EQ(means.numbers[Number::Density], row.numbers[Number::Density]);
      EXPECT_EQ(means.numbers[Number::Forced], row.numbers[Number::Forced]);
      EXPECT_EQ(means.numbers[Number::KvBytes], row.numbers[Number::KvBytes]);
    }
  }
}

// The newest four past keys, as a later version may have written it.
TEST(MethodAverages, OfARunOfAnUnknownMethodAreThoseOfItsSets) {
  const SmallTrace trace(shape());
  const std::string path = trace.session().info().path;
  trace::RunInfo info;
  info.method = "future_method:depth=3";
  info.q_heads_per_row = 2;
  trace::LayerRecord layer;
  for (const trace::ChunkInfo& chunk : trace.session().info().chunks) {
    trace::CellRecord& cell = layer.cells.emplace_back();
    cell.rows.resize(2);
    cell.num_candidates = chunk.begin;
    if (chunk.begin == 0) cell.dense_reason = trace::DenseReason::EmptyPast;
    for (trace::SelectedRow& row : cell.rows)
      for (std::int32_t key = std::max(chunk.begin - 4, 0); key < chunk.begin; ++key)
        row.positions.push_back(key);
  }
  trace::append_sidecar_run(path, info, {0, 1}, {layer, layer});

  const session::TraceSession again(path);
  const MethodAverages averages =
      average(again, replay::choice_of(replay::MethodName("run:0"), again.info()), {0, 1}, {}, {});
  EXPECT_EQ(averages.means(kPrefill).method, "future_method:depth=3");
  expect_equal(averages.means(kPrefill), expected_of(trace, kPrefill, 4, newest), 4);
  expect_equal(averages.means(kDecode), expected_of(trace, kDecode, 4, newest), 4);
  EXPECT_FALSE(averages.means(kPrefill).numbers[Number::RequestedBudget].has_value());
  EXPECT_FALSE(averages.means(kPrefill).numbers[Number::Forced].has_value());  // unknown, not 0
  EXPECT_EQ(averages.cells(kPrefill), (CellSet{{0, 1}, {0, 2}, {0, 3}, {1, 1}, {1, 2}, {1, 3}}));
}

TEST(MethodAverages, ThrowForWhatATraceCannotServe) {
  const SmallTrace trace(shape());  // without a probe
  EXPECT_THROW(averages_of(trace, "infinipot:budget_tokens=8"), Error);
}

}  // namespace
}  // namespace kvloupe::analysis
