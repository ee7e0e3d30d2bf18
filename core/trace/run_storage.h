// Writing one run's selections of one layer: the part of the layout that traces and sidecars share.
#pragma once

#include "core/trace/hdf5.h"
#include "core/trace/run_codec.h"
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

// One cell of that: in a dense cell the past.
float mean_kept(const CellRecord& record, const ChunkInfo& chunk);

// A vector that grows chunk by chunk and may be cut back to any chunk.
class GrowingVector {
 public:
  GrowingVector() = default;
  GrowingVector(hid_t group, const char* name, hid_t stored_type, hid_t memory_type,
                hsize_t storage_chunk, const char* axis, const char* units);
  explicit operator bool() const { return static_cast<bool>(dataset_); }
  hid_t id() const { return dataset_.get(); }
  void append(const void* values, std::size_t count);
  void trim(int num_chunks);
  std::int64_t size() const { return ends_.back(); }

 private:
  h5::Handle dataset_;
  hid_t memory_type_ = 0;
  std::vector<std::int64_t> ends_ = {0};  // after each chunk
};

// Lists of numbers, one a (chunk, row) cell: offsets and what they point into.
class CellLists {
 public:
  CellLists() = default;
  CellLists(hid_t group, const char* offsets_name, hsize_t num_cells, GrowingVector values);
  explicit operator bool() const { return static_cast<bool>(values_); }
  // The next chunk's cells, from `first_cell` on; offsets begin at 0.
  void append(hsize_t first_cell, std::span<const std::int64_t> offsets,
              std::span<const std::int32_t> values);
  void trim(int num_chunks, hsize_t num_cells);

 private:
  h5::Handle offsets_;
  GrowingVector values_;
};

// The datasets of one layer of one run.
class RunLayerWriter {
 public:
  RunLayerWriter(hid_t run_group, int layer, const RunInfo& run, const ModelInfo& model,
                 std::int32_t max_chunks, std::int32_t max_tokens);

  // The next chunk: its cells as encode_cell() makes them.
  void write_chunk(const RunLayer& cells);
  // The positions of each row that died after `chunk`.
  void write_evicted(int chunk, const std::vector<std::vector<std::int32_t>>& evicted);
  // [R][T] at once, as LayerRecord holds it.
  void write_all_evicted(const std::vector<std::vector<std::uint16_t>>& evict_chunk);
  // Cuts everything to what the first `num_chunks` chunks of `num_tokens` tokens need.
  void trim(int num_chunks, std::int32_t num_tokens);

  int chunks_written() const { return chunks_written_; }

 private:
  void create_evictions();
  void create_lanes(std::int32_t max_chunks);
  void create_blocks(const RunInfo& run, hsize_t num_cells);
  void clear_evictions_after(int num_chunks);

  int num_rows_;
  hsize_t num_q_heads_, head_dim_;
  std::int32_t max_tokens_;
  int chunks_written_ = 0;
  h5::Handle group_, flags_, evict_chunk_, lane_counts_;
  CellLists positions_, forced_, tables_;
  GrowingVector block_mask_, block_forced_, block_abstains_;
};

}  // namespace kvloupe::trace
