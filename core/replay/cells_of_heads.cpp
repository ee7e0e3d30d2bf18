#include "core/replay/cells_of_heads.h"

#include <ATen/ATen.h>

namespace kvloupe::replay {
namespace {

using selection::Cell;

// Copies of the keys serve no longer.
void take_kv_head(Cell& cell, std::int64_t kv_head) {
  cell.k = cell.k.narrow(0, kv_head, 1);
  cell.v = cell.v.narrow(0, kv_head, 1);
  cell.copies = nullptr;
  cell.memo = nullptr;
}

void take_q_heads(Cell& cell, std::int64_t first, std::int64_t count) {
  cell.q = cell.q.narrow(0, first, count);
  if (cell.probe_q.defined()) cell.probe_q = cell.probe_q.narrow(0, first, count);
  cell.softmax = cell.softmax.of_heads(first, count);
}

}  // namespace

Cell one_of_each_group(const Cell& cell, std::int64_t of_group) {
  const std::int64_t group = cell.gqa_group_size();
  Cell part = cell;
  part.memo = nullptr;
  part.q = cell.q.reshape({cell.num_kv_heads(), group, cell.chunk_len, -1})
               .select(1, of_group)
               .contiguous();
  if (cell.softmax.sink_logits.empty()) return part;
  part.softmax.sink_logits.clear();
  for (std::int64_t head = of_group; head < cell.num_q_heads(); head += group)
    part.softmax.sink_logits.push_back(cell.softmax.sink_logits[static_cast<std::size_t>(head)]);
  return part;
}

Cell single_head(const Cell& cell, std::int64_t q_head) {
  Cell part = cell;
  take_kv_head(part, q_head / cell.gqa_group_size());
  take_q_heads(part, q_head, 1);
  return part;
}

Cell single_group(const Cell& cell, std::int64_t kv_head) {
  Cell part = cell;
  take_kv_head(part, kv_head);
  take_q_heads(part, kv_head * cell.gqa_group_size(), cell.gqa_group_size());
  return part;
}

}  // namespace kvloupe::replay
