// One run's selections: CSR over (chunk, row), the chunk after which a key died, lanes used, masks
// and tables of blocks.
#include "core/trace/runs/run_storage.h"

#include "core/base/error.h"
#include "core/trace/fields/attribute_io.h"
#include "core/trace/fields/trace_names.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::trace {

h5::Handle create_dataset(hid_t at, const std::string& path, hid_t type,
                          const std::vector<hsize_t>& dims,
                          const std::vector<hsize_t>& storage_chunk, bool grows) {
  const std::string action = "create " + path;
  std::vector<hsize_t> max = dims;
  if (grows) max.front() = H5S_UNLIMITED;
  const auto rank = static_cast<int>(dims.size());
  const h5::Handle space = h5::checked(H5Screate_simple(rank, dims.data(), max.data()), action);
  const h5::Handle plist = h5::checked(H5Pcreate(H5P_DATASET_CREATE), action);
  H5Pset_chunk(plist.get(), rank, storage_chunk.data());
  H5Pset_fill_time(plist.get(), H5D_FILL_TIME_NEVER);
  if (!grows) H5Pset_alloc_time(plist.get(), H5D_ALLOC_TIME_EARLY);
  // Without a chunk cache a write goes to its place at once instead of rewriting whole chunks at
  // every flush.
  const h5::Handle access = h5::checked(H5Pcreate(H5P_DATASET_ACCESS), action);
  H5Pset_chunk_cache(access.get(), 1, 0, 0);
  return h5::checked(
      H5Dcreate2(at, path.c_str(), type, space.get(), H5P_DEFAULT, plist.get(), access.get()),
      action);
}

h5::Handle create_run_group(hid_t file, const RunInfo& run, const ModelInfo& model) {
  h5::Handle group = h5::create_group(file, fmt::format("/runs/{}", run.id));
  const hid_t id = group.get();
  RunInfo written = run;
  written.q_heads_per_row = model.num_q_heads / num_rows_of(run, model);
  write_attributes(id, written);
  h5::create_group(id, "layers");
  return group;
}

h5::Handle create_kept_plot(hid_t run_group, const std::vector<int>& layers,
                            std::int32_t max_chunks) {
  const auto columns = static_cast<hsize_t>(layers.size());
  const auto chunks = static_cast<hsize_t>(max_chunks);
  h5::Handle kept =
      create_dataset(run_group, "kept", H5T_IEEE_F32LE, {chunks, columns},
                     {std::clamp<hsize_t>(chunks, 1, 1024), std::max<hsize_t>(columns, 1)}, false);
  h5::write_attribute(kept.get(), "axes", std::vector<std::string>{"chunk", "layer"});
  h5::write_attribute(kept.get(), "units", "token");
  h5::write_attribute(kept.get(), "long_name", "keys kept, mean over the rows");
  const h5::Handle axis = create_dataset(run_group, "layer", H5T_STD_I32LE, {columns},
                                         {std::max<hsize_t>(columns, 1)}, false);
  h5::write_box(axis.get(), H5T_NATIVE_INT, {0}, {columns}, layers.data());
  h5::write_attribute(run_group, "NX_class", "NXdata");
  h5::write_attribute(run_group, "signal", "kept");
  h5::write_attribute(run_group, "axes", std::vector<std::string>{".", "layer"});
  h5::write_attribute(run_group, "title", "Keys kept by chunk and layer");
  return kept;
}

void write_kept_plot(hid_t run_group, const std::vector<int>& layers,
                     const std::vector<float>& kept) {
  if (layers.empty()) return;
  const auto chunks = static_cast<std::int32_t>(kept.size() / layers.size());
  const h5::Handle dataset = create_kept_plot(run_group, layers, chunks);
  h5::write_box(dataset.get(), H5T_NATIVE_FLOAT, {0, 0},
                {static_cast<hsize_t>(chunks), static_cast<hsize_t>(layers.size())}, kept.data());
}

float mean_kept(const CellRecord& record, const ChunkInfo& chunk) {
  if (!record.chooses_keys()) return static_cast<float>(chunk.begin - record.first_candidate);
  double total = 0;
  for (const SelectedRow& row : record.rows) total += static_cast<double>(row.positions.size());
  return static_cast<float>(total / static_cast<double>(record.rows.size()));
}

RunLayerWriter::RunLayerWriter(hid_t file, int layer, const RunInfo& run, const ModelInfo& model,
                               std::int32_t max_chunks, std::int32_t max_tokens)
    : max_tokens_(max_tokens), ends_(1) {
  FieldSizes& none = ends_.front();
  none.rows = static_cast<std::uint64_t>(num_rows_of(run, model));
  none.q_heads = static_cast<std::uint64_t>(model.num_q_heads);
  none.head_dim = static_cast<std::uint64_t>(model.head_dim);
  FieldSizes room = none;
  room.chunks = static_cast<std::uint64_t>(max_chunks);
  room.tokens = static_cast<std::uint64_t>(max_tokens);
  h5::create_group(file, fmt::format("/runs/{}/layers/{}", run.id, layer));
  fields_ = FieldStorage(file, run, layer, room);
  if (fields_.has(Field::BlockMask))
    h5::write_attribute(fields_.dataset(Field::BlockMask), "block_size", run.block_size);
  const std::vector<std::uint16_t> alive(room.tokens, kAlive);
  for (hsize_t row = 0; row < room.rows; ++row)
    fields_.write(Field::EvictChunk, {row, 0}, {1, room.tokens}, alive.data());
}

void RunLayerWriter::append(Field offsets, Field values, std::span<const std::int64_t> cell_offsets,
                            std::span<const std::int32_t> cell_values, std::uint64_t& end) {
  if (!fields_.has(values)) return;
  std::vector<std::int64_t> ends(cell_offsets.begin() + 1, cell_offsets.end());
  for (std::int64_t& cell_end : ends) cell_end += static_cast<std::int64_t>(end);
  const FieldSizes& done = ends_.back();
  fields_.write(offsets, {done.chunks * done.rows + 1}, {ends.size()}, ends.data());
  fields_.write(values, {end}, {cell_values.size()}, cell_values.data());
  end += cell_values.size();
}

void RunLayerWriter::write_chunk(const RunLayer& cells) {
  const FieldSizes done = ends_.back();
  KVLOUPE_CHECK(static_cast<hsize_t>(cells.num_rows) == done.rows);
  KVLOUPE_CHECK(cells.lane_counts.size() ==
                (fields_.has(Field::LaneCounts) ? done.q_heads * done.head_dim : 0));
  FieldSizes now = done;
  fields_.write(Field::Flags, {done.chunks * done.rows}, {cells.flags.size()}, cells.flags.data());
  append(Field::Offsets, Field::Positions, cells.offsets, cells.positions, now.selected);
  append(Field::ForcedOffsets, Field::ForcedBounds, cells.forced_offsets, cells.forced_bounds,
         now.bounds);
  append(Field::TableIndptr, Field::TableIndices, cells.table_indptr, cells.table_indices,
         now.table_entries);
  fields_.write(Field::LaneCounts, {done.chunks, 0, 0}, {1, done.q_heads, done.head_dim},
                cells.lane_counts.data());
  fields_.write(Field::BlockMask, {done.mask_bytes}, {cells.block_mask.size()},
                cells.block_mask.data());
  fields_.write(Field::BlockForced, {done.mask_bytes}, {cells.block_forced.size()},
                cells.block_forced.data());
  fields_.write(Field::BlockAbstains, {done.query_blocks}, {cells.block_abstains.size()},
                cells.block_abstains.data());
  now.mask_bytes += cells.block_mask.size();
  now.query_blocks += cells.block_abstains.size();
  ++now.chunks;
  ends_.push_back(now);
}

void RunLayerWriter::write_evicted(int chunk,
                                   const std::vector<std::vector<std::int32_t>>& evicted) {
  if (!fields_.has(Field::EvictChunk) || evicted.empty()) return;
  KVLOUPE_CHECK(evicted.size() == ends_.front().rows);
  for (std::size_t row = 0; row < evicted.size(); ++row) {
    if (evicted[row].empty()) continue;
    const auto [low, high] = std::minmax_element(evicted[row].begin(), evicted[row].end());
    KVLOUPE_CHECK(*low >= 0 && *high < max_tokens_);
    // The span between the first and the last dead key is small reading against one write a key.
    const std::vector<hsize_t> start = {row, static_cast<hsize_t>(*low)};
    const std::vector<hsize_t> count = {1, static_cast<hsize_t>(*high - *low + 1)};
    std::vector<std::uint16_t> span(count.back());
    h5::read_box(fields_.dataset(Field::EvictChunk), H5T_NATIVE_UINT16, start, count, span.data());
    for (const std::int32_t position : evicted[row])
      span[position - *low] = static_cast<std::uint16_t>(chunk);
    fields_.write(Field::EvictChunk, start, count, span.data());
  }
}

void RunLayerWriter::write_all_evicted(const std::vector<std::vector<std::uint16_t>>& evict_chunk) {
  if (!fields_.has(Field::EvictChunk)) return;
  KVLOUPE_CHECK(evict_chunk.size() == ends_.front().rows);
  const auto tokens = static_cast<hsize_t>(max_tokens_);
  for (hsize_t row = 0; row < evict_chunk.size(); ++row) {
    KVLOUPE_CHECK(evict_chunk[row].size() == tokens);
    fields_.write(Field::EvictChunk, {row, 0}, {1, tokens}, evict_chunk[row].data());
  }
}

// A chunk that was begun and never ended may have written its evictions.
void RunLayerWriter::clear_evictions_after(int num_chunks) {
  const std::vector<hsize_t> all = {ends_.front().rows, static_cast<hsize_t>(max_tokens_)};
  std::vector<std::uint16_t> deaths(all[0] * all[1]);
  h5::read_box(fields_.dataset(Field::EvictChunk), H5T_NATIVE_UINT16, {0, 0}, all, deaths.data());
  for (auto& value : deaths) {
    if (value >= num_chunks) value = kAlive;
  }
  fields_.write(Field::EvictChunk, {0, 0}, all, deaths.data());
}

void RunLayerWriter::trim(int num_chunks, std::int32_t num_tokens) {
  if (fields_.has(Field::EvictChunk) && chunks_written() > num_chunks)
    clear_evictions_after(num_chunks);
  FieldSizes done = ends_.at(static_cast<std::size_t>(num_chunks));
  done.tokens = static_cast<std::uint64_t>(num_tokens);
  fields_.trim(done);
}

}  // namespace kvloupe::trace
