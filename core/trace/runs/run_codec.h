// Between the record of a selection and what a trace stores of it (FORMAT.md, section 6). The only
// place that knows both.
#pragma once

#include "core/trace/runs/selection_record.h"
#include "core/trace/trace_types.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace kvloupe::trace {

// Flags of one (chunk, row) cell. Cells with a flag store no positions and mean all candidates.
inline constexpr std::uint8_t kCellDenseFallback = 1;
inline constexpr std::uint8_t kCellDenseByRule = 2;

// One run in one layer, as the file has it, over all chunks or one: CSR over (chunk, row).
struct RunLayer {
  int num_rows = 0;                     // R
  std::vector<std::int64_t> offsets;    // [C*R+1]
  std::vector<std::int32_t> positions;  // absolute, ascending inside a cell
  std::vector<std::uint8_t> flags;      // [C*R]
  // Kept by rule: CSR of index ranges [begin, end) into the cell's positions, one after the other.
  // Both empty where it is not known.
  std::vector<std::int64_t> forced_offsets;  // [C*R+1], all even
  std::vector<std::int32_t> forced_bounds;
  // Eviction methods: [R, T], the chunk after which the key died, kAlive if never. Else empty.
  std::vector<std::uint16_t> evict_chunk;
  // Lane methods: [C, num_q_heads, head_dim], rows of the chunk that used the lane. Else empty.
  std::vector<std::int32_t> lane_counts;
  // Block methods: native masks and, within them, what is kept by rule (empty where it is not
  // known), packed as block_mask.h says, chunk after chunk; [sum of Q_b], 1 where a query block has
  // no vote. Else empty.
  int block_size = 0;
  std::vector<std::uint8_t> block_mask, block_forced, block_abstains;
  // Block tables: CSR over (chunk, row), kept blocks ascending; flagged cells list none. Else empty.
  std::vector<std::int64_t> table_indptr;  // [C*R+1]
  std::vector<std::int32_t> table_indices;
};

// One chunk's part of a layer: offsets begin at 0, evict_chunk is empty. `record` must be of a run
// of this kind.
RunLayer encode_cell(const CellRecord& record, const ChunkInfo& chunk, const RunInfo& run,
                     const ModelInfo& model);
// A layer as load_run_layer() has checked it; with `chunk` that cell alone. What a trace does not
// record of a cell is left empty.
LayerRecord decode_layer(const RunLayer& stored, const RunInfo& run, const TraceInfo& info,
                         int layer, std::optional<int> chunk);

}  // namespace kvloupe::trace
