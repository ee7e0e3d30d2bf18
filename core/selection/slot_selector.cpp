#include "core/selection/slot_selector.h"

#include "core/selection/cell_rows.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

namespace kvloupe::selection {

std::vector<std::vector<std::int32_t>> SlotSelector::sampled_rows(const Cell& cell) {
  std::vector<std::vector<std::int32_t>> rows = rows_on_host(slots_of(cell).rows);
  for (std::vector<std::int32_t>& head : rows) std::sort(head.begin(), head.end());
  return rows;
}

at::Tensor SlotSelector::scores(const Cell& cell, std::int64_t num_candidates) {
  const SlotScoring slots = slots_of(cell);
  return score_keys(cell.q, cell.k, slots.rows, num_candidates, slots.form);
}

}  // namespace kvloupe::selection
