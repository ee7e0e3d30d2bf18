// The masks of a block method, executed in three ways on the same heads and queries, so that it is
// seen what each union adds in reading, in mass and in time:
//   native       each query block of a head reads the blocks of its own mask, its own block always
//   query_union  each head reads the past blocks that any of its query blocks wants
//   head_union   all heads read the past blocks that any of them wants
// In the unions query blocks that abstain have no vote, a straddling block is read, the chunk is open.
#pragma once

#include "core/base/cancel.h"
#include "core/replay/replay.h"

#include <array>
#include <cstddef>

namespace kvloupe::replay {

enum class BlockExecution { Native, QueryUnion, HeadUnion };
inline constexpr std::array kBlockExecutions{BlockExecution::Native, BlockExecution::QueryUnion,
                                             BlockExecution::HeadUnion};
const char* name_of(BlockExecution way);  // "native", "query_union", "head_union"

// Of the heads together.
struct BlockMetrics {
  double density = 0;       // (query, past key) pairs that are read / all of them
  double mass_recall = 1;   // of what past keys receive from these heads
  double output_error = 0;  // mean over the heads
};
using MetricsByExecution = std::array<BlockMetrics, kBlockExecutions.size()>;

// Of a cell with masks; the query heads [first_q_head, first_q_head + num_q_heads) share a KV head.
// Throws Error{Input} as session::load_cell() and where attention is beyond fp32.
MetricsByExecution block_metrics(const session::TraceSession& session, const ReplayCell& cell,
                                 int first_q_head, int num_q_heads);

}  // namespace kvloupe::replay
