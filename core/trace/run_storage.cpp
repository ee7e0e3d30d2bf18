// One run's selections: CSR over (chunk, row), the chunk after which a key died, lanes used, masks
// and tables of blocks.
#include "core/trace/run_storage.h"

#include "core/base/error.h"
#include "core/trace/trace_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvloupe::trace {
namespace {

constexpr hsize_t kPositionsPerStorageChunk = 8192;
constexpr hsize_t kLanesPerStorageChunk = 32768;
constexpr hsize_t kMaskBytesPerStorageChunk = 4096;
constexpr hsize_t kTableEntriesPerStorageChunk = 1024;
constexpr hsize_t kBoundsPerStorageChunk = 1024;
constexpr hsize_t kCellsPerStorageChunk = 16384;

void name_axes(hid_t dataset, const std::vector<std::string>& axes, const char* units) {
  h5::write_attribute(dataset, "axes", axes);
  h5::write_attribute(dataset, "units", units);
}

void resize(const h5::Handle& dataset, const std::vector<hsize_t>& dims) {
  h5::checked_status(H5Dset_extent(dataset.get(), dims.data()), "trim the runs");
}

}  // namespace

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
  const int per_row = model.num_q_heads / num_rows_of(run, model);
  h5::write_attribute(id, "method", run.method);
  h5::write_attribute(id, "mode", std::string(to_text(run.mode)));
  h5::write_attribute(id, "row_axis", std::string(to_text(run.row_axis)));
  h5::write_attribute(id, "q_heads_per_row", per_row);
  h5::write_attribute(id, "granularity", std::string(to_text(run.granularity)));
  h5::write_attribute(id, "state_action", std::string(to_text(run.state_action)));
  h5::write_attribute(id, "budget_scope", std::string(to_text(run.budget_scope)));
  if (run.decode_dense) h5::write_attribute(id, "decode", "dense");
  if (run.block_size > 0) {
    h5::write_attribute(id, "block_size", run.block_size);
    h5::write_attribute(id, "lowering", std::string(to_text(run.lowering)));
    h5::write_attribute(id, "block_tables", run.block_tables ? 1 : 0);
  }
  if (!run.basis_source.empty()) {
    h5::write_attribute(id, "basis_source", run.basis_source);
    h5::write_attribute(id, "basis_hash", run.basis_hash);
    h5::write_attribute(id, "basis_leakage", run.basis_leakage ? 1 : 0);
  }
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
  name_axes(kept.get(), {"chunk", "layer"}, "token");
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

GrowingVector::GrowingVector(hid_t group, const char* name, hid_t stored_type, hid_t memory_type,
                             hsize_t storage_chunk, const char* axis, const char* units)
    : dataset_(create_dataset(group, name, stored_type, {0}, {storage_chunk}, true)),
      memory_type_(memory_type) {
  name_axes(dataset_.get(), {axis}, units);
}

void GrowingVector::append(const void* values, std::size_t count) {
  const auto end = static_cast<hsize_t>(ends_.back());
  if (count > 0) {
    const hsize_t size = end + count;
    h5::checked_status(H5Dset_extent(dataset_.get(), &size), "extend the runs");
    h5::write_box(dataset_.get(), memory_type_, {end}, {count}, values);
  }
  ends_.push_back(static_cast<std::int64_t>(end + count));
}

void GrowingVector::trim(int num_chunks) {
  resize(dataset_, {static_cast<hsize_t>(ends_.at(static_cast<std::size_t>(num_chunks)))});
}

CellLists::CellLists(hid_t group, const char* offsets_name, hsize_t num_cells, GrowingVector values)
    : offsets_(create_dataset(group, offsets_name, H5T_STD_I64LE, {num_cells + 1},
                              {std::min<hsize_t>(num_cells + 1, kCellsPerStorageChunk)}, false)),
      values_(std::move(values)) {
  const std::int64_t zero = 0;
  h5::write_box(offsets_.get(), H5T_NATIVE_INT64, {0}, {1}, &zero);
  name_axes(offsets_.get(), {"cell"}, "1");
}

void CellLists::append(hsize_t first_cell, std::span<const std::int64_t> offsets,
                       std::span<const std::int32_t> values) {
  std::vector<std::int64_t> ends(offsets.begin() + 1, offsets.end());
  for (std::int64_t& end : ends) end += values_.size();
  h5::write_box(offsets_.get(), H5T_NATIVE_INT64, {first_cell + 1}, {ends.size()}, ends.data());
  values_.append(values.data(), values.size());
}

void CellLists::trim(int num_chunks, hsize_t num_cells) {
  resize(offsets_, {num_cells + 1});
  values_.trim(num_chunks);
}

RunLayerWriter::RunLayerWriter(hid_t run_group, int layer, const RunInfo& run,
                               const ModelInfo& model, std::int32_t max_chunks,
                               std::int32_t max_tokens)
    : num_rows_(num_rows_of(run, model)),
      num_q_heads_(static_cast<hsize_t>(model.num_q_heads)),
      head_dim_(static_cast<hsize_t>(model.head_dim)),
      max_tokens_(max_tokens) {
  group_ = h5::create_group(run_group, fmt::format("layers/{}", layer));
  const hid_t group = group_.get();
  const hsize_t cells = static_cast<hsize_t>(num_rows_) * max_chunks;
  flags_ = create_dataset(group, "flags", H5T_STD_U8LE, {cells},
                          {std::clamp<hsize_t>(cells, 1, 65536)}, false);
  name_axes(flags_.get(), {"cell"}, "1");
  const hsize_t most = std::max<hsize_t>(cells * max_tokens, 1);
  positions_ =
      CellLists(group, "offsets", cells,
                GrowingVector(group, "positions", H5T_STD_I32LE, H5T_NATIVE_INT32,
                              std::min(most, kPositionsPerStorageChunk), "selected", "token"));
  forced_ = CellLists(group, "forced_offsets", cells,
                      GrowingVector(group, "forced_bounds", H5T_STD_I32LE, H5T_NATIVE_INT32,
                                    kBoundsPerStorageChunk, "bound", "1"));
  if (run.state_action == StateAction::Eviction) create_evictions();
  if (run.granularity == Granularity::Lane) create_lanes(max_chunks);
  if (run.block_size > 0) create_blocks(run, cells);
}

void RunLayerWriter::create_evictions() {
  const auto rows = static_cast<hsize_t>(num_rows_), tokens = static_cast<hsize_t>(max_tokens_);
  evict_chunk_ = create_dataset(group_.get(), "evict_chunk", H5T_STD_U16LE, {rows, tokens},
                                {1, std::clamp<hsize_t>(tokens, 1, 32768)}, false);
  name_axes(evict_chunk_.get(), {"row", "token"}, "chunk");
  const std::vector<std::uint16_t> alive(tokens, kAlive);
  for (hsize_t row = 0; row < rows; ++row) {
    h5::write_box(evict_chunk_.get(), H5T_NATIVE_UINT16, {row, 0}, {1, tokens}, alive.data());
  }
}

void RunLayerWriter::create_lanes(std::int32_t max_chunks) {
  const auto chunks = static_cast<hsize_t>(max_chunks);
  const hsize_t piece = std::clamp<hsize_t>(kLanesPerStorageChunk / (num_q_heads_ * head_dim_), 1,
                                            std::max<hsize_t>(chunks, 1));
  lane_counts_ =
      create_dataset(group_.get(), "lane_counts", H5T_STD_I32LE, {chunks, num_q_heads_, head_dim_},
                     {piece, num_q_heads_, head_dim_}, false);
  name_axes(lane_counts_.get(), {"chunk", "q_head", "lane"}, "row");
}

void RunLayerWriter::create_blocks(const RunInfo& run, hsize_t num_cells) {
  const hid_t group = group_.get();
  const auto bytes = [&](const char* name, hsize_t storage_chunk, const char* axis) {
    return GrowingVector(group, name, H5T_STD_U8LE, H5T_NATIVE_UINT8, storage_chunk, axis, "1");
  };
  block_mask_ = bytes("block_mask", kMaskBytesPerStorageChunk, "byte");
  h5::write_attribute(block_mask_.id(), "block_size", run.block_size);
  block_forced_ = bytes("block_forced", kMaskBytesPerStorageChunk, "byte");
  block_abstains_ = bytes("block_abstains", kBoundsPerStorageChunk, "query_block");
  if (!run.block_tables) return;
  tables_ = CellLists(group, "table_indptr", num_cells,
                      GrowingVector(group, "table_indices", H5T_STD_I32LE, H5T_NATIVE_INT32,
                                    kTableEntriesPerStorageChunk, "entry", "block"));
}

void RunLayerWriter::write_chunk(const RunLayer& cells) {
  KVLOUPE_CHECK(cells.num_rows == num_rows_);
  KVLOUPE_CHECK(cells.lane_counts.size() == (lane_counts_ ? num_q_heads_ * head_dim_ : 0));
  const auto chunk = static_cast<hsize_t>(chunks_written_);
  const hsize_t first_cell = chunk * num_rows_;
  h5::write_box(flags_.get(), H5T_NATIVE_UINT8, {first_cell}, {cells.flags.size()},
                cells.flags.data());
  positions_.append(first_cell, cells.offsets, cells.positions);
  forced_.append(first_cell, cells.forced_offsets, cells.forced_bounds);
  if (lane_counts_) {
    h5::write_box(lane_counts_.get(), H5T_NATIVE_INT32, {chunk, 0, 0}, {1, num_q_heads_, head_dim_},
                  cells.lane_counts.data());
  }
  if (block_mask_) {
    block_mask_.append(cells.block_mask.data(), cells.block_mask.size());
    block_forced_.append(cells.block_forced.data(), cells.block_forced.size());
    block_abstains_.append(cells.block_abstains.data(), cells.block_abstains.size());
  }
  if (tables_) tables_.append(first_cell, cells.table_indptr, cells.table_indices);
  ++chunks_written_;
}

void RunLayerWriter::write_evicted(int chunk,
                                   const std::vector<std::vector<std::int32_t>>& evicted) {
  if (!evict_chunk_ || evicted.empty()) return;
  KVLOUPE_CHECK(evicted.size() == static_cast<std::size_t>(num_rows_));
  for (std::size_t row = 0; row < evicted.size(); ++row) {
    if (evicted[row].empty()) continue;
    const auto [low, high] = std::minmax_element(evicted[row].begin(), evicted[row].end());
    KVLOUPE_CHECK(*low >= 0 && *high < max_tokens_);
    // The span between the first and the last dead key is small reading against one write a key.
    const auto first = static_cast<hsize_t>(*low);
    const auto count = static_cast<hsize_t>(*high - *low + 1);
    std::vector<std::uint16_t> span(count);
    const h5::Handle file_space = h5::checked(H5Dget_space(evict_chunk_.get()), "read evict_chunk");
    const hsize_t start[2] = {row, first};
    const hsize_t box[2] = {1, count};
    H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start, nullptr, box, nullptr);
    const h5::Handle memory_space =
        h5::checked(H5Screate_simple(2, box, nullptr), "read evict_chunk");
    h5::checked_status(H5Dread(evict_chunk_.get(), H5T_NATIVE_UINT16, memory_space.get(),
                               file_space.get(), h5::transfer(), span.data()),
                       "read evict_chunk");
    for (const std::int32_t position : evicted[row]) {
      span[position - *low] = static_cast<std::uint16_t>(chunk);
    }
    h5::write_box(evict_chunk_.get(), H5T_NATIVE_UINT16, {row, first}, {1, count}, span.data());
  }
}

void RunLayerWriter::write_all_evicted(const std::vector<std::vector<std::uint16_t>>& evict_chunk) {
  if (!evict_chunk_) return;
  KVLOUPE_CHECK(evict_chunk.size() == static_cast<std::size_t>(num_rows_));
  const auto tokens = static_cast<hsize_t>(max_tokens_);
  for (hsize_t row = 0; row < evict_chunk.size(); ++row) {
    KVLOUPE_CHECK(evict_chunk[row].size() == tokens);
    h5::write_box(evict_chunk_.get(), H5T_NATIVE_UINT16, {row, 0}, {1, tokens},
                  evict_chunk[row].data());
  }
}

// A chunk that was begun and never ended may have written its evictions.
void RunLayerWriter::clear_evictions_after(int num_chunks) {
  std::vector<std::uint16_t> row_values(static_cast<std::size_t>(max_tokens_) * num_rows_);
  h5::checked_status(H5Dread(evict_chunk_.get(), H5T_NATIVE_UINT16, H5S_ALL, H5S_ALL,
                             h5::transfer(), row_values.data()),
                     "read evict_chunk");
  for (auto& value : row_values) {
    if (value >= num_chunks) value = kAlive;
  }
  h5::write_box(evict_chunk_.get(), H5T_NATIVE_UINT16, {0, 0},
                {static_cast<hsize_t>(num_rows_), static_cast<hsize_t>(max_tokens_)},
                row_values.data());
}

void RunLayerWriter::trim(int num_chunks, std::int32_t num_tokens) {
  const auto chunks = static_cast<hsize_t>(num_chunks);
  const hsize_t cells = chunks * num_rows_;
  if (evict_chunk_ && chunks_written_ > num_chunks) clear_evictions_after(num_chunks);
  resize(flags_, {cells});
  positions_.trim(num_chunks, cells);
  forced_.trim(num_chunks, cells);
  if (evict_chunk_) {
    resize(evict_chunk_, {static_cast<hsize_t>(num_rows_), static_cast<hsize_t>(num_tokens)});
  }
  if (lane_counts_) resize(lane_counts_, {chunks, num_q_heads_, head_dim_});
  for (GrowingVector* blocks : {&block_mask_, &block_forced_, &block_abstains_}) {
    if (*blocks) blocks->trim(num_chunks);
  }
  if (tables_) tables_.trim(num_chunks, cells);
}

}  // namespace kvloupe::trace
