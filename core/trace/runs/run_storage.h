// Writing one run's selections of one layer: the part of the layout that traces and sidecars share.
#pragma once

#include "core/trace/fields/field_storage.h"
#include "core/trace/hdf5/hdf5.h"
#include "core/trace/runs/run_codec.h"
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

// The datasets of one layer of one run.
class RunLayerWriter {
 public:
  RunLayerWriter(hid_t file, int layer, const RunInfo& run, const ModelInfo& model,
                 std::int32_t max_chunks, std::int32_t max_tokens);

  // The next chunk: its cells as encode_cell() makes them.
  void write_chunk(const RunLayer& cells);
  // The positions of each row that died after `chunk`.
  void write_evicted(int chunk, const std::vector<std::vector<std::int32_t>>& evicted);
  // [R][T] at once, as LayerRecord holds it.
  void write_all_evicted(const std::vector<std::vector<std::uint16_t>>& evict_chunk);
  // Cuts everything to what the first `num_chunks` chunks of `num_tokens` tokens need.
  void trim(int num_chunks, std::int32_t num_tokens);

  int chunks_written() const { return static_cast<int>(ends_.size()) - 1; }

 private:
  // Lists of numbers, one a cell: offsets from 0 and what they point into, which `end` counts.
  void append(Field offsets, Field values, std::span<const std::int64_t> cell_offsets,
              std::span<const std::int32_t> cell_values, std::uint64_t& end);
  void clear_evictions_after(int num_chunks);

  std::int32_t max_tokens_;
  std::vector<FieldSizes> ends_;  // before the first chunk, and after each
  FieldStorage fields_;
};

}  // namespace kvloupe::trace
