// Replays on the device `sim`: the sets of the CPU, and what they are worth to fp32's precision.
#include "core/replay/replay.h"
#include "tests/replay/small_trace.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvloupe::replay {
namespace {

using testing::SmallTrace;
using testing::SmallTraceShape;

ReplayResult replayed(const SmallTrace& trace, const std::string& spec, const std::string& device) {
  ReplayRequest request;
  request.spec = selection::MethodSpec::parse(spec).resolved(trace.session().shape());
  request.want_output_error = true;
  request.device = device;
  return replay(trace.session(), request, {});
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5);
}

void expect_equal_on_sim(const SmallTrace& trace, const std::string& spec) {
  SCOPED_TRACE(spec);
  const ReplayResult cpu = replayed(trace, spec, "cpu"), sim = replayed(trace, spec, "sim");
  EXPECT_EQ(sim.final_alive, cpu.final_alive);
  EXPECT_EQ(sim.evict_chunk, cpu.evict_chunk);
  ASSERT_EQ(sim.cells.size(), cpu.cells.size());
  for (std::size_t i = 0; i < sim.cells.size(); ++i) {
    const ReplayCell &cell = sim.cells[i], &other = cpu.cells[i];
    ASSERT_EQ(cell.rows.size(), other.rows.size());
    for (std::size_t row = 0; row < cell.rows.size(); ++row)
      EXPECT_EQ(cell.rows[row].positions, other.rows[row].positions);
    ASSERT_EQ(cell.metrics.size(), other.metrics.size());
    for (std::size_t row = 0; row < cell.metrics.size(); ++row) {
      EXPECT_NEAR(cell.metrics[row].mass_recall, other.metrics[row].mass_recall, 1e-5);
      EXPECT_EQ(cell.metrics[row].topk_overlap, other.metrics[row].topk_overlap);
    }
    expect_near(cell.output_error, other.output_error);
    expect_near(cell.score_error, other.score_error);
  }
}

const std::vector<std::string>& specs() {
  static const std::vector<std::string> all = {
      "quoka:budget_tokens=9,num_queries=4",
      "oracle:budget_tokens=9,budget_scope=all",
      "h2o:budget_tokens=9",
      "quest:budget_tokens=8,page_size=4,skip_layers=0",
      "aqua:basis=self",
      "aqua_h2o:basis=self",
      "flash_prefill:block_size=8,alpha=0.3,lowering=native",
      "compact_attention:block_size=8,alpha=0.3"};
  return all;
}

TEST(OnSim, EveryWayOfAttendingIsMeasuredAlike) {
  const SmallTrace trace({.decoded = 2});
  for (const std::string& spec : specs()) expect_equal_on_sim(trace, spec);
}

TEST(OnSim, SoIsALayerOfAnotherSoftmax) {
  const SmallTrace trace({.window = 21, .softcap = 4, .sink_logits = {-0.5F, 0.75F, 2.25F, 1.0F}});
  for (const std::string& spec : specs()) expect_equal_on_sim(trace, spec);
}

TEST(OnSim, AnUnknownDeviceIsRefused) {
  const SmallTrace trace;
  EXPECT_THROW(replayed(trace, "dense", "tpu"), Error);
}

}  // namespace
}  // namespace kvloupe::replay
