// The three ways to execute block masks, against plain loops over single (query, key) pairs.
#include "core/replay/block_metrics.h"

#include "core/selection/spec/method_spec.h"
#include "tests/replay/plain_output_error.h"
#include "tests/replay/small_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace kvloupe::replay::testing {
namespace {

using Sees = std::function<bool(int head, int query, int key)>;

// What `sees` is worth in the query heads [first, first + count).
BlockMetrics worth_of(const SmallTrace& trace, const ReplayCell& cell, int first, int count,
                      const Sees& sees) {
  double pairs = 0, kept = 0, whole = 0, errors = 0;
  for (int head = first; head < first + count; ++head) {
    for (int query = cell.span.begin; query < cell.span.end(); ++query)
      for (int key = 0; key < cell.span.begin; ++key) {
        const double p = trace.probability(cell.layer, head, query, key);
        const bool seen = sees(head, query, key);
        whole += p;
        kept += seen ? p : 0;
        pairs += seen ? 1 : 0;
      }
    errors += plain_output_error(trace, cell, head,
                                 [&](int query, int key) { return sees(head, query, key); });
  }
  return {pairs / count / cell.span.length / cell.span.begin, kept / whole, errors / count};
}

class BlockMetricsTest : public ::testing::Test {
 protected:
  explicit BlockMetricsTest(const SmallTraceShape& shape = BlockMetricsTest::shape())
      : trace_(shape) {}

  static SmallTraceShape shape() {
    SmallTraceShape shape = {.num_q_heads = 6, .num_kv_heads = 2};
    shape.chunk_lengths = {20, 24, 13, 16};  // chunks begin inside blocks, too
    return shape;
  }

  ReplayResult replayed(const std::string& method) const {
    ReplayRequest request;
    request.spec = selection::MethodSpec::parse(method);
    return replay(trace_.session(), request, {});
  }

  // By the masks alone; the unions of the heads [first, first + count).
  MetricsByExecution expected(const ReplayCell& cell, int first, int count) const {
    const trace::BlockMasks& masks = cell.blocks.value();
    const int size = static_cast<int>(masks.grid.block_size), begin = cell.span.begin;
    const auto native = [&](int head, int query, int key) {
      return key / size == query / size ||
             masks.kept[masks.index(head, query / size - begin / size, key / size)] != 0;
    };
    const auto wanted = [&](int head, int key) {
      if (key / size == begin / size) return true;  // straddles the chunk's begin
      for (std::int64_t i = 0; i < masks.grid.num_query_blocks(); ++i)
        if (masks.votes(i) && masks.kept[masks.index(head, i, key / size)] != 0) return true;
      return false;
    };
    const auto by_head = [&](int head, int, int key) { return key >= begin || wanted(head, key); };
    const auto together = [&](int, int, int key) {
      bool any = key >= begin;
      for (int head = first; head < first + count; ++head) any = any || wanted(head, key);
      return any;
    };
    return {worth_of(trace_, cell, first, count, native),
            worth_of(trace_, cell, first, count, by_head),
            worth_of(trace_, cell, first, count, together)};
  }

  void expect_as_plain_loops() const;

  SmallTrace trace_;
};

void BlockMetricsTest::expect_as_plain_loops() const {
  for (const std::string& method :
       {std::string(
            "flash_prefill:lowering=union,block_size=4,alpha=0.95,sink_blocks=0,window_blocks=1"),
        std::string(
            "flash_prefill:lowering=union,block_size=8,alpha=0.9,sink_blocks=0,window_blocks=0,"
            "last_full_blocks=1"),
        std::string("xattention:block_size=8,stride=4,tau=0.4,lowering=native")}) {
    SCOPED_TRACE(method);
    for (const ReplayCell& cell : replayed(method).cells) {
      if (cell.dense_reason) continue;
      for (const auto& [first, count] : {std::pair(0, 3), std::pair(3, 3), std::pair(4, 1)}) {
        const MetricsByExecution found = block_metrics(trace_.session(), cell, first, count);
        const MetricsByExecution want = expected(cell, first, count);
        for (std::size_t i = 0; i < kBlockExecutions.size(); ++i) {
          SCOPED_TRACE(name_of(kBlockExecutions[i]));
          EXPECT_NEAR(found[i].density, want[i].density, 1e-12);
          EXPECT_NEAR(found[i].mass_recall, want[i].mass_recall, 1e-5);
          EXPECT_NEAR(found[i].output_error, want[i].output_error, 1e-4);
        }
      }
    }
  }
}

TEST_F(BlockMetricsTest, AreWorthWhatPlainLoopsSay) { expect_as_plain_loops(); }

class BlockMetricsOfSinksTest : public BlockMetricsTest {
 protected:
  static SmallTraceShape with_sinks() {
    SmallTraceShape sinks = shape();
    sinks.sink_logits = {0.5F, -1, 2, 0, 1, -0.5F};
    return sinks;
  }
  BlockMetricsOfSinksTest() : BlockMetricsTest(with_sinks()) {}
};
TEST_F(BlockMetricsOfSinksTest, AreWorthWhatPlainLoopsSay) { expect_as_plain_loops(); }

// What they say of a union method is what the method's own metrics say.
TEST_F(BlockMetricsTest, AgreeWithTheMethodsMetrics) {
  const std::string method =
      "flash_prefill:lowering=union,block_size=4,alpha=0.95,sink_blocks=0,window_blocks=1";
  ReplayRequest request;
  request.want_output_error = true;
  request.spec = selection::MethodSpec::parse(method);
  for (const ReplayCell& cell : replay(trace_.session(), request, {}).cells) {
    if (cell.dense_reason) continue;
    const BlockMetrics worth = block_metrics(trace_.session(), cell, 3, 3)[2];
    EXPECT_NEAR(worth.mass_recall, cell.metrics[1].mass_recall, 1e-6);
    double error = 0;
    for (int head = 3; head < 6; ++head) error += cell.output_error[head] / 3;
    EXPECT_NEAR(worth.output_error, error, 1e-6);
  }
}

}  // namespace
}  // namespace kvloupe::replay::testing
