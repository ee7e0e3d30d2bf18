// The model's first layers dense by rule: nothing is chosen or dies there, and the others are as
// without.
#include "core/replay/compare.h"
#include "tests/replay/small_trace.h"

#include <gtest/gtest.h>

#include <numeric>

namespace kvloupe::replay {
namespace {

using selection::MethodSpec;
using testing::SmallTrace;
using testing::SmallTraceShape;
using trace::DenseReason;

ReplayResult replayed(const SmallTrace& trace, const MethodSpec& spec) {
  ReplayRequest request;
  request.spec = spec.resolved(trace.session().shape());
  return replay(trace.session(), request, {});
}

void expect_dense(const ReplayCell& cell, const ReplayCell& plain) {
  const auto fallback = plain.dense_fallback() ? plain.dense_reason : DenseReason::MethodRule;
  EXPECT_EQ(cell.dense_reason, fallback) << "chunk " << cell.chunk;
  std::vector<std::int32_t> all(static_cast<std::size_t>(cell.num_candidates));
  std::iota(all.begin(), all.end(), 0);
  for (const trace::SelectedRow& row : cell.rows) EXPECT_EQ(row.positions, all);
  EXPECT_FALSE(cell.blocks);
}

TEST(SkipLayers, TheFirstAreDenseAndTheOthersAsWithout) {
  const SmallTraceShape shape = {.num_layers = 3, .decoded = 2, .probe_len = 3};
  const SmallTrace trace(shape);
  int tried = 0;
  for (const MethodSpec& plain : parse_methods("all:budget_tokens=9,basis=self").required_specs()) {
    if (!plain.has("skip_layers") || plain.id() == "quest") continue;
    SCOPED_TRACE(plain.id());
    ++tried;
    const std::string text = plain.resolved(trace.session().shape()).canonical();
    const auto at = text.find("skip_layers=0");
    ASSERT_NE(at, std::string::npos);
    const ReplayResult expected = replayed(trace, plain);
    const ReplayResult skipped = replayed(
        trace, MethodSpec::parse(text.substr(0, at) + "skip_layers=2" + text.substr(at + 13)));
    ASSERT_EQ(skipped.cells.size(), expected.cells.size());
    for (std::size_t i = 0; i < expected.cells.size(); ++i) {
      if (skipped.cells[i].layer < 2) {
        expect_dense(skipped.cells[i], expected.cells[i]);
        continue;
      }
      EXPECT_EQ(skipped.cells[i].dense_reason, expected.cells[i].dense_reason);
      EXPECT_EQ(skipped.cells[i].rows, expected.cells[i].rows);
    }
    for (std::size_t layer = 0; layer < expected.final_alive.size(); ++layer)
      for (std::size_t row = 0; row < expected.final_alive[layer].size(); ++row) {
        if (layer == 2)
          EXPECT_EQ(skipped.final_alive[layer][row], expected.final_alive[layer][row]);
        else
          EXPECT_EQ(static_cast<int>(skipped.final_alive[layer][row].size()), trace.num_tokens());
      }
  }
  EXPECT_GE(tried, 17);
}

}  // namespace
}  // namespace kvloupe::replay
