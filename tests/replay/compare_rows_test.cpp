// What rows of `compare` say beside the contract's first numbers: the full grid, recall of all that a
// chunk sees, recall at fixed k in decode, bytes held to choose with. Against plain loops.
#include "core/base/error.h"
#include "core/replay/compare.h"
#include "core/replay/kv_bytes.h"
#include "tests/replay/small_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace kvloupe::replay {
namespace {

using selection::MethodSpec;
using testing::SmallTrace;

std::vector<CompareRow> rows_of(const SmallTrace& trace, const std::string& method,
                                const CompareOptions& options = CompareOptions()) {
  return compare_methods(trace.session(), {MethodSpec::parse(method)}, {}, options, {}).rows;
}

CompareRow all_of(const std::vector<CompareRow>& rows, const std::string& phase) {
  for (const CompareRow& row : rows)
    if (row.scope == "all" && row.phase == phase) return row;
  throw std::runtime_error("no such row");
}

// Mean over the cells of a phase that are not dense, of the newest `budget` keys kept.
template <typename Value>
double mean_of_newest(const SmallTrace& trace, trace::Phase phase, int budget, const Value& value) {
  double sum = 0;
  int cells = 0;
  for (const trace::ChunkInfo& chunk : trace.session().info().chunks) {
    if (chunk.phase != phase || chunk.begin <= budget) continue;
    for (int layer = 0; layer < trace.shape().num_layers; ++layer)
      for (int head = 0; head < trace.shape().num_kv_heads; ++head, ++cells)
        sum +=
            value(trace.mass(layer, head, chunk.begin, chunk.end()), chunk, chunk.begin - budget);
  }
  return sum / cells;
}

TEST(CompareRows, VisibleRecallCountsTheChunksOwnKeys) {
  const SmallTrace trace;
  const double expected = mean_of_newest(
      trace, trace::Phase::Prefill, 10,
      [](const std::vector<double>& mass, const trace::ChunkInfo&, int first_kept) {
        const double kept = std::accumulate(mass.begin() + first_kept, mass.end(), 0.0);
        return kept / std::accumulate(mass.begin(), mass.end(), 0.0);
      });
  const CompareRow row = all_of(rows_of(trace, "sliding_window:budget_tokens=10"), "prefill");
  EXPECT_NEAR(*row.numbers[Number::VisibleRecall], expected, 1e-5);
  EXPECT_GT(*row.numbers[Number::VisibleRecall], *row.numbers[Number::MassRecall]);
  EXPECT_FALSE(row.numbers[Number::RecallAt1].has_value());
  // Each query sees its own key beside the set: not known from the set.
  EXPECT_FALSE(all_of(rows_of(trace, "sliding_window:budget_tokens=10,budget_scope=all"), "prefill")
                   .numbers[Number::VisibleRecall]
                   .has_value());
}

TEST(CompareRows, RecallAtKIsTheShareOfTheTrueBestThatIsKept) {
  const SmallTrace trace({.decoded = 3});
  const auto expected = [&](std::size_t k) {
    return mean_of_newest(
        trace, trace::Phase::Decode, 10,
        [&](const std::vector<double>& mass, const trace::ChunkInfo& chunk, int first_kept) {
          std::vector<int> best(static_cast<std::size_t>(chunk.begin));
          std::iota(best.begin(), best.end(), 0);
          std::stable_sort(best.begin(), best.end(),
                           [&](int a, int b) { return mass[a] > mass[b]; });
          best.resize(std::min(best.size(), k));
          const auto kept =
              std::count_if(best.begin(), best.end(), [&](int key) { return key >= first_kept; });
          return static_cast<double>(kept) / static_cast<double>(best.size());
        });
  };
  const CompareRow row =
      all_of(rows_of(trace, "streaming_llm:budget_tokens=10,sink_tokens=0"), "decode");
  EXPECT_NEAR(*row.numbers[Number::RecallAt1], expected(1), 1e-12);
  EXPECT_NEAR(*row.numbers[Number::RecallAt10], expected(10), 1e-12);
  EXPECT_NEAR(*row.numbers[Number::RecallAt64], expected(64),
              1e-12);  // of fewer past keys: of all of them
  EXPECT_GT(*row.numbers[Number::RecallAt10], 0);
  const CompareRow best = all_of(rows_of(trace, "oracle:budget_tokens=10"), "decode");
  EXPECT_EQ(best.numbers[Number::RecallAt10], 1);
}

TEST(CompareRows, TheGridHasARowForEveryPairOfIndices) {
  const SmallTrace trace;
  const auto plain = rows_of(trace, "quoka:budget_tokens=8");
  CompareOptions options;
  options.scopes = {parse_scope("kv_head,layer"), parse_scope("layer")};
  const auto rows = rows_of(trace, "quoka:budget_tokens=8", options);
  ReplayRequest request;
  request.spec = MethodSpec::parse("quoka:budget_tokens=8").resolved(trace.session().shape());
  const ReplayResult result = replay(trace.session(), request, {});
  std::vector<std::vector<int>> grid;
  std::size_t others = 0;
  for (const CompareRow& row : rows) {
    if (row.scope != "layer,kv_head") {
      EXPECT_EQ(row.scope, plain[others].scope);
      EXPECT_EQ(row.index, plain[others].index);
      EXPECT_EQ(row.numbers[Number::MassRecall], plain[others++].numbers[Number::MassRecall]);
      EXPECT_TRUE(row.grid.empty());
      continue;
    }
    ASSERT_EQ(row.grid.size(), 2U);
    grid.push_back(row.grid);
    double sum = 0;
    int cells = 0;
    for (const ReplayCell& cell : result.cells)
      if (cell.layer == row.grid[0] && !cell.dense_reason) {
        sum += cell.metrics[static_cast<std::size_t>(row.grid[1])].mass_recall;
        ++cells;
      }
    EXPECT_EQ(row.cells, cells);
    EXPECT_NEAR(*row.numbers[Number::MassRecall], sum / cells, 1e-12);
  }
  EXPECT_EQ(grid, (std::vector<std::vector<int>>{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
  EXPECT_EQ(others, plain.size());
  for (const char* wrong : {"head", "layer,layer", "layer,", ""})
    EXPECT_THROW(parse_scope(wrong), Error) << wrong;
}

// Of fp32 keys of 8 numbers, after 16, 32 and 48 keys.
TEST(CompareRows, MetadataIsWhatIsHeldToChooseWith) {
  const SmallTrace trace;
  const auto bytes = [&](const std::string& method) {
    return *all_of(rows_of(trace, method), "prefill").numbers[Number::MetadataBytes];
  };
  // A largest and a smallest key of each page; 10 pages of 5 hold 48 keys, 7 hold 32, 4 hold 16.
  EXPECT_DOUBLE_EQ(bytes("quest:budget_tokens=10,page_size=5,skip_layers=0"),
                   (4 + 7 + 10) / 3.0 * 2 * 8 * 4);
  EXPECT_DOUBLE_EQ(bytes("flash_prefill:lowering=union,block_size=8,sink_blocks=0,window_blocks=1"),
                   (2 + 4 + 6) / 3.0 * 8 * 4);
  EXPECT_DOUBLE_EQ(bytes("sparq:budget_tokens=10"), (16 + 32 + 48) / 3.0 * 8 * 4);
  EXPECT_DOUBLE_EQ(bytes("loki:budget_tokens=10,num_channels=3,basis=self"),
                   (16 + 32 + 48) / 3.0 * 3 * 4 + 3 * 8 * 4);
  EXPECT_DOUBLE_EQ(bytes("h2o:budget_tokens=10"), 10 * 4);
  EXPECT_DOUBLE_EQ(bytes("aqua:basis=self"), 8 * 8 * 4);
  EXPECT_DOUBLE_EQ(bytes("quoka:budget_tokens=10"), 0);
}

// Quest's load fraction: bounds and kept pages over all of K and V is 1/page + B/P.
TEST(CompareRows, QuestsLoadIsItsPagesAndItsBounds) {
  const auto spec = MethodSpec::parse("quest:page_size=16,budget_tokens=128");
  const auto held = selection::metadata_of(spec, {.head_dim = 64});
  const double whole = 2048 * 2.0 * 64 * 2;
  const double bounds =
      metadata_bytes(*held, spec.traits().page_size, trace::DType::F16, 2048, 128);
  EXPECT_DOUBLE_EQ(bounds / whole, 1.0 / 16);
  EXPECT_DOUBLE_EQ((bounds + 128 * 2.0 * 64 * 2) / whole, 1.0 / 16 + 128.0 / 2048);
}

}  // namespace
}  // namespace kvloupe::replay
