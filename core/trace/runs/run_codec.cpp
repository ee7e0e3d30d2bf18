#include "core/trace/runs/run_codec.h"

#include "core/base/error.h"
#include "core/trace/fields/trace_names.h"
#include "core/trace/hdf5/load_budget.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace kvloupe::trace {
namespace {

std::uint8_t flag_of(const CellRecord& record) {
  if (record.dense_fallback()) return kCellDenseFallback;
  return record.chooses_keys() ? 0 : kCellDenseByRule;
}

// The ranges of `row.positions` that are forced, as begin, end, begin, end, ...
void append_forced_bounds(const SelectedRow& row, std::vector<std::int32_t>& bounds) {
  auto forced = row.forced.begin();
  bool inside = false;
  for (std::size_t i = 0; i < row.positions.size(); ++i) {
    const bool is_forced = forced != row.forced.end() && *forced == row.positions[i];
    if (is_forced != inside) bounds.push_back(static_cast<std::int32_t>(i));
    inside = is_forced;
    if (is_forced) ++forced;
  }
  if (inside) bounds.push_back(static_cast<std::int32_t>(row.positions.size()));
  KVLOUPE_CHECK(forced == row.forced.end());
}

void encode_rows(const CellRecord& record, RunLayer& layer) {
  const std::uint8_t flag = flag_of(record);
  layer.num_rows = static_cast<int>(record.rows.size());
  layer.flags.assign(record.rows.size(), flag);
  layer.offsets = layer.forced_offsets = {0};
  for (const SelectedRow& row : record.rows) {
    if (flag == 0) {
      layer.positions.insert(layer.positions.end(), row.positions.begin(), row.positions.end());
      append_forced_bounds(row, layer.forced_bounds);
    }
    layer.offsets.push_back(static_cast<std::int64_t>(layer.positions.size()));
    layer.forced_offsets.push_back(static_cast<std::int64_t>(layer.forced_bounds.size()));
  }
}

// A dense cell attends to all blocks that its query blocks may see.
void encode_blocks(const CellRecord& record, const BlockGrid& grid, int num_q_heads,
                   RunLayer& layer) {
  layer.block_size = static_cast<int>(grid.block_size);
  layer.block_abstains.assign(static_cast<std::size_t>(grid.num_query_blocks()), 0);
  if (!record.blocks) {
    layer.block_mask = packed_causal_mask(grid, num_q_heads);
    layer.block_forced.assign(layer.block_mask.size(), 0);
    return;
  }
  const BlockMasks& masks = *record.blocks;
  KVLOUPE_CHECK(masks.grid == grid && masks.num_q_heads == num_q_heads);
  layer.block_mask = pack_mask(grid, masks.kept);
  layer.block_forced = masks.forced.empty() ? std::vector<std::uint8_t>(layer.block_mask.size(), 0)
                                            : pack_mask(grid, masks.forced);
  if (!masks.abstains.empty()) layer.block_abstains = masks.abstains;
}

void encode_tables(const CellRecord& record, const BlockGrid& grid, RunLayer& layer) {
  layer.table_indptr = {0};
  for (const SelectedRow& row : record.rows) {
    if (layer.flags.front() == 0) {
      const auto table = block_table(grid, row.positions);
      layer.table_indices.insert(layer.table_indices.end(), table.begin(), table.end());
    }
    layer.table_indptr.push_back(static_cast<std::int64_t>(layer.table_indices.size()));
  }
}

std::vector<std::int32_t> forced_of(const RunLayer& layer, std::size_t cell,
                                    const std::vector<std::int32_t>& positions) {
  std::vector<std::int32_t> forced;
  if (layer.forced_offsets.empty()) return forced;
  for (auto i = static_cast<std::size_t>(layer.forced_offsets[cell]);
       i < static_cast<std::size_t>(layer.forced_offsets[cell + 1]); i += 2)
    forced.insert(forced.end(), positions.begin() + layer.forced_bounds[i],
                  positions.begin() + layer.forced_bounds[i + 1]);
  return forced;
}

CellRecord decode_cell(const RunLayer& layer, std::size_t chunk_idx, const ChunkInfo& chunk,
                       const RunInfo& run, const SoftmaxForm& softmax) {
  CellRecord record;
  record.first_candidate = softmax.first_visible(chunk.begin);
  record.num_candidates =
      (run.budget_scope == BudgetScope::All ? chunk.end() : chunk.begin) - record.first_candidate;
  const bool empty_past = record.first_candidate == chunk.begin;
  // Lane methods that drop no key are flagged wherever they work.
  const bool prunes_lanes =
      !layer.lane_counts.empty() && !(run.decode_dense && chunk.phase == Phase::Decode);
  const auto rows = static_cast<std::size_t>(layer.num_rows);
  std::size_t flagged = 0;
  for (std::size_t cell = chunk_idx * rows; cell < (chunk_idx + 1) * rows; ++cell) {
    SelectedRow row;
    if (layer.flags[cell] == 0) {
      row.positions.assign(layer.positions.begin() + layer.offsets[cell],
                           layer.positions.begin() + layer.offsets[cell + 1]);
      row.forced = forced_of(layer, cell, row.positions);
    } else {
      ++flagged;
      const auto candidates = static_cast<std::size_t>(record.num_candidates);
      LoadBudget::spend(candidates * sizeof(std::int32_t), "the keys of dense cells");
      row.positions.resize(candidates);
      std::iota(row.positions.begin(), row.positions.end(),
                static_cast<std::int32_t>(record.first_candidate));
      if ((layer.flags[cell] & kCellDenseFallback) != 0)
        record.dense_reason = empty_past ? DenseReason::EmptyPast : DenseReason::FitsBudget;
      else if (!prunes_lanes && !record.dense_reason)
        record.dense_reason = DenseReason::MethodRule;
    }
    record.rows.push_back(std::move(row));
  }
  // Where other rows chose, a row that keeps every key is one of them.
  if (flagged < rows) record.dense_reason.reset();
  return record;
}

// Bytes of masks and votes before a chunk's own.
struct BlockPlace {
  std::size_t mask = 0, vote = 0;
};

BlockPlace place_of(std::size_t chunk_idx, int block_size, const TraceInfo& info) {
  BlockPlace place;
  for (std::size_t c = 0; c < chunk_idx; ++c) {
    const BlockGrid grid = block_grid(info.chunks[c], block_size);
    place.mask += static_cast<std::size_t>(packed_mask_bytes(grid, info.model.num_q_heads));
    place.vote += static_cast<std::size_t>(grid.num_query_blocks());
  }
  return place;
}

BlockMasks decode_blocks(const RunLayer& layer, std::size_t chunk_idx, const TraceInfo& info) {
  const BlockPlace place = place_of(chunk_idx, layer.block_size, info);
  BlockMasks masks;
  masks.grid = block_grid(info.chunks[chunk_idx], layer.block_size);
  masks.num_q_heads = info.model.num_q_heads;
  const auto unpacked = [&](const std::vector<std::uint8_t>& packed) {
    const auto bytes = static_cast<std::size_t>(packed_mask_bytes(masks.grid, masks.num_q_heads));
    return unpack_mask(masks.grid, masks.num_q_heads, std::span(packed).subspan(place.mask, bytes));
  };
  masks.kept = unpacked(layer.block_mask);
  if (!layer.block_forced.empty()) masks.forced = unpacked(layer.block_forced);
  if (!layer.block_abstains.empty()) {
    const auto votes =
        std::span(layer.block_abstains)
            .subspan(place.vote, static_cast<std::size_t>(masks.grid.num_query_blocks()));
    if (std::find(votes.begin(), votes.end(), 1) != votes.end())
      masks.abstains.assign(votes.begin(), votes.end());
  }
  return masks;
}

}  // namespace

RunLayer encode_cell(const CellRecord& record, const ChunkInfo& chunk, const RunInfo& run,
                     const ModelInfo& model) {
  KVLOUPE_CHECK(static_cast<int>(record.rows.size()) == num_rows_of(run, model));
  RunLayer layer;
  encode_rows(record, layer);
  layer.lane_counts = record.lane_counts;
  if (run.block_size == 0) return layer;
  const BlockGrid grid = block_grid(chunk, run.block_size);
  encode_blocks(record, grid, model.num_q_heads, layer);
  if (run.block_tables) encode_tables(record, grid, layer);
  return layer;
}

LayerRecord decode_layer(const RunLayer& stored, const RunInfo& run, const TraceInfo& info,
                         int layer, std::optional<int> chunk) {
  LayerRecord record;
  const SoftmaxForm softmax = info.model.softmax_of(layer);
  const std::size_t lanes =
      info.chunks.empty() ? 0 : stored.lane_counts.size() / info.chunks.size();
  for (std::size_t c = 0; c < info.chunks.size(); ++c) {
    if (chunk && static_cast<std::size_t>(*chunk) != c) continue;
    CellRecord cell = decode_cell(stored, c, info.chunks[c], run, softmax);
    const auto counts = std::span(stored.lane_counts).subspan(c * lanes, lanes);
    cell.lane_counts.assign(counts.begin(), counts.end());
    if (stored.block_size > 0 && !cell.dense_reason) cell.blocks = decode_blocks(stored, c, info);
    record.cells.push_back(std::move(cell));
  }
  const auto tokens = static_cast<std::size_t>(info.num_tokens);
  for (std::size_t i = 0; i < stored.evict_chunk.size(); i += tokens) {
    const auto row = std::span(stored.evict_chunk).subspan(i, tokens);
    record.evict_chunk.emplace_back(row.begin(), row.end());
  }
  return record;
}

}  // namespace kvloupe::trace
