#include "core/selection/attend.h"

#include "core/attention/attention.h"
#include "core/attention/paged_attention.h"
#include "core/base/error.h"
#include "core/selection/blocks/page_tables.h"
#include "core/selection/lanes/lanes.h"
#include "core/selection/lanes/reassigned_keys.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

namespace kvloupe::selection {

namespace {

// No selector of ours answers so.
Error unreadable(const char* what) {
  return input_error("the run cannot be attended to", what, "select its method anew");
}

bool is_causal(const trace::BlockMasks& masks, std::int64_t q_head, std::int64_t query_block) {
  const std::int64_t own = masks.grid.block_of_query_block(query_block);
  const auto row =
      masks.kept.begin() + static_cast<std::ptrdiff_t>(masks.index(q_head, query_block, 0));
  return row[own] != 0 && std::all_of(row + own + 1, row + masks.grid.num_key_blocks(),
                                      [](std::uint8_t kept) { return kept == 0; });
}

}  // namespace

const trace::BlockMasks& masks_of(const trace::CellRecord& record) {
  if (!record.blocks) throw unreadable("it was recorded without the masks of its query heads");
  return *record.blocks;
}

at::Tensor mask_of(const trace::BlockMasks& masks) {
  for (std::int64_t head = 0; head < masks.num_q_heads; ++head)
    for (std::int64_t i = 0; i < masks.grid.num_query_blocks(); ++i)
      if (!is_causal(masks, head, i))
        throw unreadable("a recorded mask leaves out its own block or keeps a later one");
  // The operator reads it only.
  auto* values = const_cast<std::uint8_t*>(masks.kept.data());
  return at::from_blob(
      values, {masks.num_q_heads, masks.grid.num_query_blocks(), masks.grid.num_key_blocks()},
      at::kByte);
}

std::vector<std::vector<std::int32_t>> kept_positions(const CellSelection& selection) {
  std::vector<std::vector<std::int32_t>> rows;
  rows.reserve(selection.rows.size());
  for (const SelectedRow& row : selection.rows) rows.push_back(row.positions);
  return rows;
}

at::Tensor attend_selected(const MethodSpec& spec, const trace::ModelInfo& model, const Cell& cell,
                           const RowLayout& layout, const CellSelection& selection) {
  const at::Tensor& q = cell.q;
  const SoftmaxForm& softmax = cell.softmax;
  if (selection.lanes) {
    const LaneScores& lanes = *selection.lanes;
    if (!selection.chooses_keys()) return attend_lanes(cell, lanes);
    const auto keys =
        attention::gather_lanes(lanes.keys, cell.v, cell.chunk_len, kept_positions(selection));
    return attention::attend_gathered(lanes.queries, keys, softmax);
  }
  if (!selection.chooses_keys())
    return attention::dense_chunk_attention(q, cell.k, cell.v, softmax, false).output;

  if (selection.pending)
    return attention::kept_chunk_attention(q, cell.k, cell.v, softmax, selection.pending->indices);

  if (selection.reads_masks) {
    const trace::BlockMasks& masks = masks_of(selection);
    return attention::block_sparse_chunk_attention(q, cell.k, cell.v, softmax,
                                                   masks.grid.block_size, mask_of(masks));
  }

  if (const auto tables = page_tables(spec, layout, cell, selection))
    return attention::paged_chunk_attention(q, cell.k, cell.v, softmax, *tables);

  const std::vector<std::vector<std::int32_t>> rows = kept_positions(selection);
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
