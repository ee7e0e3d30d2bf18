// Runs that were saved, read back as replays.
#include "core/replay/compare.h"
#include "core/replay/replay.h"
#include "core/trace/trace_writer.h"
#include "tests/replay/small_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kvloupe::replay {
namespace {

using testing::SmallTrace;
using Ints = std::vector<std::int32_t>;

testing::SmallTraceShape with_decode() { return {.decoded = 2}; }

ReplayResult replay_of(const SmallTrace& trace, const std::string& spec) {
  ReplayRequest request;
  request.spec = selection::MethodSpec::parse(spec).resolved(trace.session().shape());
  request.want_output_error = true;
  return replay(trace.session(), request, {});
}

TEST(RecordedRun, ReadsBackWhatASavedReplayKept) {
  const SmallTrace trace(with_decode());
  const std::string path = trace.session().info().path;
  int saved = 0;
  for (const char* text :
       {"snapkv:budget_tokens=7,window=4", "quoka:budget_tokens=20,decode=dense"}) {
    SCOPED_TRACE(text);
    const auto spec = selection::MethodSpec::parse(text).resolved(trace.session().shape());
    const ReplayResult made = replay_of(trace, text);
    const int run = save_run(trace.session(), spec, made);
    EXPECT_EQ(run, saved++);
    const session::TraceSession again(path);
    const ReplayResult read = recorded_run(again, run, {}, {}, true, true, {});
    ASSERT_EQ(read.cells.size(), made.cells.size());
    for (std::size_t i = 0; i < made.cells.size(); ++i) {
      EXPECT_EQ(read.cells[i].dense_reason, made.cells[i].dense_reason);
      EXPECT_EQ(read.cells[i].dense_fallback(), made.cells[i].dense_fallback());
      EXPECT_EQ(read.cells[i].budget_tokens, made.cells[i].budget_tokens);
      EXPECT_EQ(read.cells[i].output_error, made.cells[i].output_error);
      for (std::size_t row = 0; row < 2; ++row) {
        EXPECT_EQ(read.cells[i].rows[row].positions, made.cells[i].rows[row].positions);
        if (!made.cells[i].dense_reason) {
          EXPECT_EQ(read.cells[i].rows[row].forced, made.cells[i].rows[row].forced);
        }
        EXPECT_EQ(read.cells[i].metrics[row].mass_recall, made.cells[i].metrics[row].mass_recall);
      }
    }
    EXPECT_EQ(read.final_alive, made.final_alive);
    EXPECT_EQ(read.evict_chunk, made.evict_chunk);
  }
}

// The newest four past keys, dense while there are no more, as a later version may have written it.
TEST(RecordedRun, OfAnUnknownMethodShowsItsSets) {
  const SmallTrace trace(with_decode());
  const std::string path = trace.session().info().path;
  const auto& chunks = trace.session().info().chunks;
  trace::RunInfo info;
  info.method = "future_method:depth=3";
  info.q_heads_per_row = 2;
  trace::LayerRecord layer;
  for (const trace::ChunkInfo& chunk : chunks) {
    trace::CellRecord cell;
    cell.num_candidates = chunk.begin;
    cell.rows.resize(2);
    for (trace::SelectedRow& row : cell.rows)
      for (std::int32_t key = std::max(chunk.begin - 4, 0); key < chunk.begin; ++key)
        row.positions.push_back(key);
    if (chunk.begin == 0) cell.dense_reason = trace::DenseReason::EmptyPast;
    layer.cells.push_back(std::move(cell));
  }
  trace::append_sidecar_run(path, info, {0, 1}, {layer, layer});

  const session::TraceSession again(path);
  const ReplayResult read = recorded_run(again, 0, {}, {}, true, true, {});
  EXPECT_EQ(read.method, "future_method:depth=3");
  EXPECT_FALSE(read.spec.has_value());
  ASSERT_EQ(read.cells.size(), 2 * chunks.size());
  for (const ReplayCell& cell : read.cells) {
    EXPECT_FALSE(cell.budget_tokens || cell.source_layer);
    if (cell.span.begin == 0) {
      EXPECT_EQ(cell.dense_reason, trace::DenseReason::EmptyPast);
      continue;
    }
    for (int kv_head = 0; kv_head < 2; ++kv_head) {
      const auto index = static_cast<std::size_t>(kv_head);
      EXPECT_EQ(cell.rows[index].positions, (Ints{cell.span.begin - 4, cell.span.begin - 3,
                                                  cell.span.begin - 2, cell.span.begin - 1}));
      const auto mass = trace.mass(cell.layer, kv_head, cell.span.begin, cell.span.end());
      double kept = 0, all = 0;
      for (int key = 0; key < cell.span.begin; ++key) {
        all += mass[key];
        if (key >= cell.span.begin - 4) kept += mass[key];
      }
      EXPECT_NEAR(cell.metrics[index].mass_recall, kept / all, 1e-5);
    }
    EXPECT_EQ(cell.output_error.size(), 4U);
  }
  const auto rows = summarise(read, again);
  EXPECT_EQ(rows.front().method, "future_method:depth=3");
  EXPECT_DOUBLE_EQ(*rows.front().numbers[Number::EffectiveBudget], 4);
  EXPECT_DOUBLE_EQ(*rows.front().numbers[Number::KvBytes],
                   4 * 2 * 8 * 4);  // keys, K and V, head_dim, fp32
}

TEST(RecordedRun, HasTheMethodAsAValueWhereItIsKnown) {
  const SmallTrace trace;
  const ReplayResult made = replay_of(trace, "snapkv:budget_tokens=7,window=4");
  ASSERT_TRUE(made.spec.has_value());
  EXPECT_EQ(*made.spec, selection::MethodSpec::parse("snapkv:window=4,budget_tokens=7"));
  save_run(trace.session(), *made.spec, made);
  const session::TraceSession again(trace.session().info().path);
  EXPECT_EQ(recorded_run(again, 0, {}, {}, false, false, {}).spec, made.spec);
}

}  // namespace
}  // namespace kvloupe::replay
