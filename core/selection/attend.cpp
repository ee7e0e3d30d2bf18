#include "core/selection/attend.h"

#include "core/attention/attention.h"
#include "core/attention/paged_attention.h"
#include "core/selection/page_tables.h"
#include "core/selection/reassigned_keys.h"

#include <ATen/ATen.h>

#include <vector>

namespace kvloupe::selection {

at::Tensor attend_selected(const MethodSpec& spec, const trace::ModelInfo& model, const Cell& cell,
                           const RowLayout& layout, const CellSelection& selection) {
  const at::Tensor& q = selection.lane_queries.defined() ? selection.lane_queries : cell.q;
  const SoftmaxForm& softmax = cell.softmax;
  if (!selection.chooses_keys())
    return attention::dense_chunk_attention(q, cell.k, cell.v, softmax, false).output;

  if (const auto tables = page_tables(spec, layout, cell, selection))
    return attention::paged_chunk_attention(q, cell.k, cell.v, softmax, *tables);

  std::vector<std::vector<std::int32_t>> rows;
  rows.reserve(selection.rows.size());
  for (const SelectedRow& row : selection.rows) rows.push_back(row.positions);
  const auto visibility = spec.scope() == BudgetScope::All ? attention::ChunkVisibility::SelfOnly
                                                           : attention::ChunkVisibility::OpenChunk;
  if (layout.axis == trace::RowAxis::KvHead) {
    const at::Tensor keys = attended_keys(spec, model, cell.layer, cell.k, cell.past_len, rows);
    return attention::gathered_chunk_attention(q, keys, cell.v, softmax, rows, visibility);
  }
  std::vector<at::Tensor> parts;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::int64_t head = static_cast<std::int64_t>(row) * layout.q_heads_per_row;
    const std::int64_t kv_head = head / cell.gqa_group_size();
    parts.push_back(attention::gathered_chunk_attention(
        q.narrow(0, head, layout.q_heads_per_row), cell.k.narrow(0, kv_head, 1),
        cell.v.narrow(0, kv_head, 1), softmax.of_heads(head, layout.q_heads_per_row), {rows[row]},
        visibility));
  }
  return at::cat(parts, 0);
}

}  // namespace kvloupe::selection
