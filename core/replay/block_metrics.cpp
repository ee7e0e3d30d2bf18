#include "core/replay/block_metrics.h"

#include "core/base/error.h"
#include "core/replay/block_executions.h"
#include "core/replay/block_report.h"
#include "core/replay/cell_metrics.h"
#include "core/session/session_tensors.h"

#include <ATen/ATen.h>

namespace kvloupe::replay {

const char* name_of(BlockExecution way) {
  switch (way) {
    case BlockExecution::Native: return "native";
    case BlockExecution::QueryUnion: return "query_union";
    case BlockExecution::HeadUnion: return "head_union";
  }
  fail_check("a known way to execute masks", __FILE__, __LINE__);
}

MetricsByExecution block_metrics(const session::TraceSession& session, const ReplayCell& cell,
                                 int first_q_head, int num_q_heads) {
  KVLOUPE_CHECK(cell.blocks.has_value());
  const selection::Cell loaded = session::load_cell(session, cell.layer, cell.chunk, cell.span);
  const BlockExecutions executions(loaded, *cell.blocks, first_q_head, num_q_heads);
  const auto past = static_cast<double>(loaded.past_len);
  CellTruth truth(executions.cell(), {});
  MetricsByExecution worths;
  for (std::size_t i = 0; i < kBlockExecutions.size(); ++i) {
    const BlockExecution way = kBlockExecutions[i];
    BlockMetrics& worth = worths[i];
    RowTruth::Sums sums;
    for (int head = 0; head < num_q_heads; ++head) {
      const auto& keys = executions.past_keys(way, head);
      const RowTruth::Sums of_head = way == BlockExecution::Native
                                         ? truth.sums_of_masks(executions.masks(), head)
                                         : truth
                                               .row({trace::RowAxis::QHead, 1},
                                                    static_cast<std::size_t>(head), loaded.past_len)
                                               .sums(keys);
      sums.kept += of_head.kept;
      sums.whole += of_head.whole;
      worth.density += static_cast<double>(keys.size()) / past / num_q_heads;
    }
    if (way == BlockExecution::Native)
      worth.density = native_shares(executions.masks(), 0, num_q_heads).past;
    if (sums.whole > 0) worth.mass_recall = sums.kept / sums.whole;
    for (const double error : truth.output_errors(executions.attend(way)))
      worth.output_error += error / num_q_heads;
  }
  return worths;
}

}  // namespace kvloupe::replay
