#include "core/measure/block_execution_times.h"

#include "core/base/error.h"
#include "core/measure/timing.h"
#include "core/replay/block_executions.h"
#include "core/session/session_tensors.h"

#include <vector>

namespace kvloupe::measure {

BlockExecutionTimes time_block_executions(const session::TraceSession& session,
                                          const replay::ReplayCell& cell, int first_q_head,
                                          int num_q_heads, const LatencyOptions& options,
                                          const WorkContext& context) {
  KVLOUPE_CHECK(cell.blocks.has_value());
  const selection::Cell loaded = session::load_cell(session, cell.layer, cell.chunk, cell.span);
  const replay::BlockExecutions executions(loaded, *cell.blocks, first_q_head, num_q_heads);
  std::vector<TimedPart> parts;
  for (const replay::BlockExecution way : replay::kBlockExecutions)
    parts.push_back({replay::name_of(way), [&executions, way] { executions.attend(way); }});
  RoundOptions rounds;
  rounds.repetitions = options.repetitions;
  rounds.warm_up = options.warm_up;
  const RoundTimes times = time_rounds(parts, rounds, context);
  BlockExecutionTimes result;
  result.discarded = times.discarded;
  for (std::size_t i = 0; i < parts.size(); ++i) result.attend[i] = times.stats(i);
  return result;
}

}  // namespace kvloupe::measure
