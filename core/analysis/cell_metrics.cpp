#include "core/analysis/cell_metrics.h"

#include "core/analysis/session_tensors.h"
#include "core/attention/attention.h"
#include "core/selection/ranking.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

namespace kvloupe::analysis {
namespace {

double sum_over(const float* mass, const std::vector<std::int32_t>& positions) {
  double sum = 0;
  for (const std::int32_t position : positions) sum += static_cast<double>(mass[position]);
  return sum;
}

// Relative Frobenius distance; 0 for two zero matrices.
double relative_error(const float* reference, const float* other, std::int64_t count) {
  double difference = 0;
  double size = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double a = static_cast<double>(reference[i]);
    const double delta = a - static_cast<double>(other[i]);
    difference += delta * delta;
    size += a * a;
  }
  return difference == 0 ? 0 : std::sqrt(difference) / std::sqrt(size);
}

}  // namespace

at::Tensor row_mass(const selection::Cell& cell, const selection::RowLayout& layout) {
  if (layout.axis == trace::RowAxis::KvHead) return cell_mass(cell);
  std::vector<at::Tensor> rows;
  for (std::int64_t head = 0; head < cell.num_q_heads(); head += layout.q_heads_per_row) {
    const auto q = cell.q.narrow(0, head, layout.q_heads_per_row);
    const auto k = cell.k.narrow(0, head / cell.gqa_group_size(), 1);
    rows.push_back(attention::chunk_mass(q, k, cell.softmax_scale).key_mass);
  }
  return at::cat(rows, 0);
}

MassMetrics mass_metrics(const float* mass, std::int64_t num_candidates,
                         const std::vector<std::int32_t>& selected) {
  MassMetrics metrics;
  double whole = 0;
  for (std::int64_t i = 0; i < num_candidates; ++i) whole += static_cast<double>(mass[i]);
  if (whole > 0) metrics.recall = sum_over(mass, selected) / whole;
  if (selected.empty()) return metrics;
  const auto best = selection::keep_best(std::span(mass, static_cast<std::size_t>(num_candidates)),
                                         static_cast<std::int64_t>(selected.size()));
  std::vector<std::int32_t> common;
  std::set_intersection(selected.begin(), selected.end(), best.indices.begin(), best.indices.end(),
                        std::back_inserter(common));
  metrics.overlap = static_cast<double>(common.size()) / static_cast<double>(selected.size());
  return metrics;
}

std::vector<double> output_errors(const selection::Cell& cell, const at::Tensor& attended_k,
                                  const std::vector<std::vector<std::int32_t>>& selected,
                                  const selection::RowLayout& layout,
                                  selection::BudgetScope scope) {
  const auto visibility = scope == selection::BudgetScope::All
                              ? attention::ChunkVisibility::SelfOnly
                              : attention::ChunkVisibility::OpenChunk;
  const at::Tensor dense =
      attention::dense_chunk_attention(cell.q, cell.k, cell.v, cell.softmax_scale, false).output;
  at::Tensor sparse;
  if (layout.axis == trace::RowAxis::KvHead) {
    sparse = attention::gathered_chunk_attention(cell.q, attended_k, cell.v, cell.softmax_scale,
                                                 selected, visibility);
  } else {
    std::vector<at::Tensor> parts;
    for (std::size_t row = 0; row < selected.size(); ++row) {
      const std::int64_t head = static_cast<std::int64_t>(row) * layout.q_heads_per_row;
      const std::int64_t kv_head = head / cell.gqa_group_size();
      parts.push_back(attention::gathered_chunk_attention(
          cell.q.narrow(0, head, layout.q_heads_per_row), attended_k.narrow(0, kv_head, 1),
          cell.v.narrow(0, kv_head, 1), cell.softmax_scale, {selected[row]}, visibility));
    }
    sparse = at::cat(parts, 0);
  }
  const std::int64_t per_head = cell.chunk_len * cell.v.size(2);
  const at::Tensor a = dense.contiguous();
  const at::Tensor b = sparse.contiguous();
  std::vector<double> errors;
  for (std::int64_t head = 0; head < cell.num_q_heads(); ++head)
    errors.push_back(relative_error(a.const_data_ptr<float>() + head * per_head,
                                    b.const_data_ptr<float>() + head * per_head, per_head));
  return errors;
}

}  // namespace kvloupe::analysis
