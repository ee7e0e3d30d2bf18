// What a file has of a run, and what is read of it, where other writers may do what ours does not.
#include "core/trace/runs/run_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvloupe::trace {
namespace {

using ::testing::ElementsAre;

// Of two KV heads one chooses, the other is dense by the method's rule.
TEST(RunCodec, ARowThatIsDenseLeavesTheOthersTheirChoice) {
  TraceInfo info;
  info.model.num_layers = 1;
  info.model.num_q_heads = info.model.num_kv_heads = 2;
  info.model.head_dim = 4;
  info.chunks = {{0, 4, Phase::Prefill}, {4, 4, Phase::Prefill}, {8, 1, Phase::Decode}};
  info.num_tokens = 9;
  RunInfo run;
  run.row_axis = RowAxis::KvHead;
  RunLayer stored;
  stored.num_rows = 2;
  stored.flags = {1, 1, 2, 0, 2, 2};
  stored.offsets = {0, 0, 0, 0, 2, 2, 2};
  stored.positions = {1, 3};
  const LayerRecord layer = decode_layer(stored, run, info, 0, {});
  ASSERT_EQ(layer.cells.size(), 3U);
  EXPECT_EQ(layer.cells[0].dense_reason, DenseReason::EmptyPast);
  EXPECT_EQ(layer.cells[1].dense_reason, std::nullopt);
  EXPECT_EQ(layer.cells[2].dense_reason, DenseReason::MethodRule);
  EXPECT_THAT(layer.cells[1].rows[0].positions, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(layer.cells[1].rows[1].positions, ElementsAre(1, 3));
  const RunLayer again = encode_cell(layer.cells[1], info.chunks[1], run, info.model);
  EXPECT_THAT(again.flags, ElementsAre(0, 0));
  EXPECT_THAT(again.positions, ElementsAre(0, 1, 2, 3, 1, 3));
}

}  // namespace
}  // namespace kvloupe::trace
