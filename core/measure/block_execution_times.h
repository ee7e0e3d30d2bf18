// How long attention takes in the three ways to execute block masks (core/replay/block_metrics.h).
#pragma once

#include "core/base/cancel.h"
#include "core/measure/latency.h"
#include "core/replay/block_metrics.h"

#include <array>

namespace kvloupe::measure {

struct BlockExecutionTimes {
  std::array<LatencyStats, replay::kBlockExecutions.size()> attend;  // masks and tables at hand
  int discarded = 0;  // rounds thrown away because the machine was busy with our own threads
};

// In turns, on the query heads [first_q_head, first_q_head + num_q_heads) of one KV head. The cell
// has masks. Throws Error{Input} as session::load_cell().
BlockExecutionTimes time_block_executions(const session::TraceSession& session,
                                          const replay::ReplayCell& cell, int first_q_head,
                                          int num_q_heads, const LatencyOptions& options,
                                          const WorkContext& context);

}  // namespace kvloupe::measure
