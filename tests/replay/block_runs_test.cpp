// Runs of block methods: replayed, saved beside the trace, read back.
#include "core/base/error.h"
#include "core/replay/block_report.h"
#include "core/replay/compare.h"
#include "core/trace/trace_writer.h"
#include "tests/replay/small_trace.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kvloupe::replay::testing {
namespace {

using selection::MethodSpec;

SmallTraceShape with_groups_of_four() {
  return {.num_q_heads = 8, .num_kv_heads = 2, .chunk_lengths = {16, 16, 13, 16, 5}, .decoded = 2};
}

ReplayResult replayed(const SmallTrace& trace, const std::string& method) {
  ReplayRequest request;
  request.spec = MethodSpec::parse(method).resolved(trace.session().shape());
  request.want_output_error = true;
  return replay(trace.session(), request, {});
}

const std::vector<std::string>& block_methods() {
  static const std::vector<std::string> methods = {
      "flash_prefill:lowering=union,block_size=8,alpha=0.4,sink_blocks=1,window_blocks=1",
      "flash_prefill:block_size=8,alpha=0.4,lowering=budget,budget_tokens=24",
      "flash_prefill:lowering=union,block_size=8,alpha=0.4,last_full_blocks=1",
      "xattention:lowering=union,block_size=8,stride=4,tau=0.5",
      "flex_prefill:lowering=union,block_size=8,min_budget=8",
      "compact_attention:subgroup_size=2,block_size=8,alpha=0.4,sink_blocks=1,window_blocks=1"};
  return methods;
}

TEST(BlockRunsTest, EveryUnflaggedCellHasMasks) {
  const SmallTrace trace(with_groups_of_four());
  for (const std::string& method : block_methods()) {
    SCOPED_TRACE(method);
    const ReplayResult result = replayed(trace, method);
    EXPECT_EQ(result.block_size, 8);
    for (const ReplayCell& cell : result.cells) {
      ASSERT_EQ(cell.blocks.has_value(), !cell.dense_reason.has_value());
      EXPECT_EQ(cell.dense_reason.has_value(),
                cell.span.begin == 0 || cell.span.phase == trace::Phase::Decode);
      if (!cell.blocks) continue;
      EXPECT_EQ(cell.blocks->grid, trace::block_grid(cell.span, 8));
      EXPECT_EQ(cell.blocks->num_q_heads, 8);
      const int per_row = result.q_heads_per_row;
      for (std::size_t row = 0; row < cell.rows.size(); ++row) {
        const BlockReport report = block_report(*cell.blocks, cell.rows[row].positions,
                                                static_cast<int>(row) * per_row, per_row, 4);
        // A budget ranks blocks, and query blocks without a vote have no part in a union.
        if (method.find("lowering=budget") != std::string::npos || !cell.blocks->abstains.empty())
          continue;
        EXPECT_LE(report.native.kept.past, report.after_query_union.kept.past + 1e-12);
        EXPECT_LE(report.after_query_union.kept.past, report.after_group_union.kept.past + 1e-12);
        EXPECT_LE(report.after_group_union.kept.past, report.read.kept.past + 1e-12);
      }
    }
  }
}

TEST(BlockRunsTest, ASavedRunIsReadBackExactly) {
  for (const std::string& method : block_methods()) {
    SCOPED_TRACE(method);
    const SmallTrace trace(with_groups_of_four());
    const ReplayResult made = replayed(trace, method);
    const auto& path = trace.session().info().path;
    const int run = save_run(trace.session(), made.spec.value(), made);
    const session::TraceSession session(path);
    for (const bool measured : {false, true}) {
      const ReplayResult recorded = recorded_run(session, run, {}, {}, measured, measured, {});
      EXPECT_EQ(recorded.block_size, 8);
      EXPECT_TRUE(recorded.notes.empty());
      ASSERT_EQ(recorded.cells.size(), made.cells.size());
      for (std::size_t i = 0; i < made.cells.size(); ++i) {
        const ReplayCell &a = recorded.cells[i], &b = made.cells[i];
        ASSERT_EQ(a.blocks.has_value(), b.blocks.has_value());
        EXPECT_EQ(a.blocks, b.blocks);
        for (std::size_t row = 0; row < b.rows.size(); ++row) {
          EXPECT_EQ(a.rows[row].positions, b.rows[row].positions);
          EXPECT_EQ(a.rows[row].forced, b.rows[row].forced);
          if (!measured) continue;
          EXPECT_EQ(a.metrics[row].mass_recall, b.metrics[row].mass_recall);
        }
      }
      const ReplayResult one = recorded_run(session, run, {1}, {3}, measured, false, {});
      const ReplayCell* of_all = recorded.find(1, 3);
      ASSERT_NE(of_all, nullptr);
      EXPECT_EQ(one.cells.front().blocks->kept, of_all->blocks->kept);
    }
    EXPECT_TRUE(trace::validate_trace(path).empty());
  }
}

TEST(BlockRunsTest, CompareAveragesDensities) {
  const SmallTrace trace(with_groups_of_four());
  const ReplayResult result = replayed(trace, block_methods()[0]);
  double native = 0, native_causal = 0, causal = 0, rectangle = 0;
  int rows = 0;
  for (const ReplayCell& cell : result.cells) {
    if (cell.dense_reason) continue;
    for (std::size_t row = 0; row < cell.rows.size(); ++row, ++rows) {
      const BlockReport report =
          block_report(*cell.blocks, cell.rows[row].positions, static_cast<int>(row) * 4, 4, 4);
      native += report.native.kept.past;
      native_causal += report.native.kept.causal;
      causal += report.read.kept.causal;
      rectangle += report.read.kept.rectangle;
    }
  }
  const CompareRow all = summarise(result, trace.session()).front();
  ASSERT_EQ(all.cells, rows);
  EXPECT_NEAR(*all.numbers[Number::NativeDensity], native / rows, 1e-12);
  EXPECT_NEAR(*all.numbers[Number::NativeDensityCausal], native_causal / rows, 1e-12);
  EXPECT_NEAR(*all.numbers[Number::DensityCausal], causal / rows, 1e-12);
  EXPECT_NEAR(*all.numbers[Number::DensityRectangle], rectangle / rows, 1e-12);
  EXPECT_LE(*all.numbers[Number::NativeDensity], *all.numbers[Number::Density]);
  const CompareRow tokens =
      summarise(replayed(trace, "oracle:budget_tokens=8"), trace.session()).front();
  EXPECT_FALSE(tokens.numbers[Number::NativeDensity] || tokens.numbers[Number::DensityCausal] ||
               tokens.numbers[Number::DensityRectangle]);
}

// The last query blocks of the prompt are dense and do not vote: the method was told where it ends.
TEST(BlockRunsTest, TheLastPrefillChunkIsKnown) {
  const SmallTrace trace(with_groups_of_four());
  const std::string method =
      "flash_prefill:lowering=union,block_size=8,alpha=0.4,sink_blocks=1,window_blocks=1,last_full_"
      "blocks=1";
  ReplayRequest request;
  request.spec = MethodSpec::parse(method).resolved(trace.session().shape());
  for (const std::optional<int> size : {std::optional<int>(), std::optional<int>(20)}) {
    request.chunk_size = size;
    const ReplayResult result = replay(trace.session(), request, {});
    for (const ReplayCell& cell : result.cells) {
      if (!cell.blocks) continue;
      const auto& abstains = cell.blocks->abstains;
      const bool any = std::find(abstains.begin(), abstains.end(), 1) != abstains.end();
      EXPECT_EQ(any, cell.span.end() == 66) << cell.chunk;
    }
  }
}

}  // namespace
}  // namespace kvloupe::replay::testing
