// What a selection keeps of one cell's attention: the definitions are those of replay.h and
// "compare". Private to core/analysis: needs Torch.
#pragma once

#include "core/analysis/replay.h"
#include "core/selection/selector.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace kvloupe::analysis {

// M[row, j]: sum of dense p over the row's query heads and the chunk's queries, [rows, kv_len].
at::Tensor row_mass(const selection::Cell& cell, const selection::RowLayout& layout);

struct MassMetrics {
  double recall = 1;
  double overlap = 1;
};
// `mass`: M of one row; candidates are [0, num_candidates).
MassMetrics mass_metrics(const float* mass, std::int64_t num_candidates,
                         const std::vector<std::int32_t>& selected);

// ||O - O^|| / ||O|| of each query head; `attended_k` is what the method's queries see for keys.
std::vector<double> output_errors(const selection::Cell& cell, const at::Tensor& attended_k,
                                  const std::vector<std::vector<std::int32_t>>& selected,
                                  const selection::RowLayout& layout, selection::BudgetScope scope);

}  // namespace kvloupe::analysis
