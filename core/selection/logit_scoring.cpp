#include "core/selection/logit_scoring.h"

#include "core/selection/cell_rows.h"

#include <ATen/ATen.h>

namespace kvloupe::selection {

at::Tensor mean_query_rows(const Cell& cell) { return cell.q.to(at::kFloat).mean(1); }

at::Tensor mean_queries(const Cell& cell) {
  return mean_query_rows(cell)
      .view({cell.num_kv_heads(), cell.gqa_group_size(), cell.q.size(2)})
      .mean(1);
}

at::Tensor logit_scores(const Cell& cell, const at::Tensor& keys, const at::Tensor& rows,
                        std::int64_t num_candidates) {
  return key_products(rows * cell.softmax.scale, keys.narrow(1, 0, num_candidates));
}

at::Tensor attention_scores(const Cell& cell, const at::Tensor& queries, const at::Tensor& keys,
                            std::span<const std::int32_t> rows, std::int64_t num_candidates) {
  // Each head on its own, so that heads which are alike get the same bits.
  const at::Tensor masses =
      reduce_probabilities(sets_over_cell(cell, queries, rows), keys, ColumnReduce::Sum);
  const auto count = static_cast<double>(cell.gqa_group_size()) * static_cast<double>(rows.size());
  return (masses.narrow(1, 0, num_candidates)
              .view({cell.num_kv_heads(), cell.gqa_group_size(), num_candidates})
              .sum({1}, false, at::kDouble) /
          count)
      .to(at::kFloat);
}

}  // namespace kvloupe::selection
