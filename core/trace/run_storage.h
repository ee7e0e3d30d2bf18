// Writing one run's selections of one layer: the part of the layout that traces and sidecars share.
#pragma once

#include "core/trace/block_mask.h"
#include "core/trace/hdf5.h"
#include "core/trace/trace_types.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kvloupe::trace {

// Values are written straight to their place in the file and never filled beforehand: a capture
// must cost little more than the plain write of its bytes. `max` as H5S_UNLIMITED for vectors that
// grow; all others are allocated at once, so that no index changes while a capture runs.
h5::Handle create_dataset(hid_t at, const std::string& path, hid_t type,
                          const std::vector<hsize_t>& dims,
                          const std::vector<hsize_t>& storage_chunk, bool grows);

// /runs/{r}: its attributes; the group stays open in the result.
h5::Handle create_run_group(hid_t file, const RunInfo& run, const ModelInfo& model);

// What h5web and silx show for a run: mean kept keys by chunk and captured layer, [C, L].
h5::Handle create_kept_plot(hid_t run_group, const std::vector<int>& layers,
                            std::int32_t max_chunks);
void write_kept_plot(hid_t run_group, const std::vector<int>& layers,
                     const std::vector<float>& kept);

// The datasets of one layer of one run.
class RunLayerWriter {
 public:
  RunLayerWriter(hid_t run_group, int layer, const RunInfo& run, const ModelInfo& model,
                 std::int32_t max_chunks, std::int32_t max_tokens);

  // Cells come chunk by chunk. Cells with a flag store no positions.
  void write_chunk(int chunk, const std::vector<std::vector<std::int32_t>>& rows,
                   std::span<const std::uint8_t> flags);
  // The positions of each row that died after `chunk`.
  void write_evicted(int chunk, const std::vector<std::vector<std::int32_t>>& evicted);
  // [num_q_heads, head_dim] of a lane method's chunk; empty for other methods.
  void write_lanes(int chunk, std::span<const std::int32_t> counts);
  // The packed masks of a block method's chunk; empty for other methods. Chunk by chunk, before
  // write_chunk.
  void write_masks(const ChunkInfo& chunk, std::span<const std::uint8_t> packed);
  // Block tables of the rows, where the run has them. Chunk by chunk, before write_chunk.
  void write_tables(const ChunkInfo& chunk, const std::vector<std::vector<std::int32_t>>& rows,
                    std::span<const std::uint8_t> flags);
  // The whole [R, T] at once, as RunLayer holds it.
  void write_all_evicted(const std::vector<std::uint16_t>& evict_chunk);
  // Cuts everything to what the first `num_chunks` chunks of `num_tokens` tokens need.
  void trim(int num_chunks, std::int32_t num_tokens);

  int num_rows() const { return num_rows_; }
  int chunks_written() const { return chunks_written_; }

 private:
  void clear_evictions_after(int num_chunks);
  void create_blocks(const RunInfo& run, hsize_t cells);

  int num_rows_;
  hsize_t num_q_heads_, head_dim_;
  std::int32_t max_tokens_;
  int chunks_written_ = 0;
  int block_size_;
  // Positions, bytes of masks and table entries after each chunk.
  std::vector<std::int64_t> ends_ = {0}, mask_ends_ = {0}, table_ends_ = {0};
  h5::Handle group_, offsets_, positions_, flags_, evict_chunk_, lane_counts_;
  h5::Handle block_mask_, table_indptr_, table_indices_;
};

}  // namespace kvloupe::trace
