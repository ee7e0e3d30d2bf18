#include "core/trace/fields/field_storage.h"

#include "core/base/error.h"
#include "core/trace/load/trace_load.h"
#include "core/trace/runs/run_storage.h"
#include "core/trace/write/trace_copy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace kvloupe::trace {
namespace {

// One layer and head is what readers ask for; pieces of this size are read quickly and waste
// little.
constexpr hsize_t kStorageChunkBytes = 128 << 10;
constexpr hsize_t kTextBytesPerStorageChunk = 16384;
constexpr hsize_t kValuesPerStorageChunk = 65536;
constexpr hsize_t kRowsPerStorageChunk = 256;
constexpr hsize_t kPositionsPerStorageChunk = 8192;
constexpr hsize_t kLanesPerStorageChunk = 32768;
constexpr hsize_t kDeathsPerStorageChunk = 32768;
constexpr hsize_t kMaskBytesPerStorageChunk = 4096;
constexpr hsize_t kEntriesPerStorageChunk = 1024;
constexpr hsize_t kCellsPerStorageChunk = 16384;

hid_t file_type(Element element, DType dtype) {
  switch (element) {
    case Element::UInt8: return H5T_STD_U8LE;
    case Element::UInt16: return H5T_STD_U16LE;
    case Element::Int32: return H5T_STD_I32LE;
    case Element::Int64: return H5T_STD_I64LE;
    case Element::UInt64: return H5T_STD_U64LE;
    case Element::Float32: return H5T_IEEE_F32LE;
    case Element::Stored: break;
  }
  return stored_type(dtype);
}

h5::ValueClass class_of(Element element) {
  return element == Element::Float32 || element == Element::Stored ? h5::ValueClass::Float
                                                                   : h5::ValueClass::Integer;
}

// Tokens of one storage chunk: about 128 KiB, all chunks of a head alike so that the last is full.
hsize_t tokens_per_storage_chunk(hsize_t tokens, hsize_t bytes_per_token) {
  const hsize_t most = std::max<hsize_t>(kStorageChunkBytes / bytes_per_token, 1);
  const hsize_t pieces = std::max<hsize_t>((tokens + most - 1) / most, 1);
  return std::max<hsize_t>((tokens + pieces - 1) / pieces, 1);
}

std::vector<hsize_t> storage_chunk(const FieldInfo& field, const std::vector<hsize_t>& shape,
                                   const FieldSizes& sizes, DType dtype) {
  switch (field.axes.front()) {
    case Axis::QHead:
    case Axis::KvHead: {
      std::vector<hsize_t> piece = shape;
      piece[0] = 1;
      const hsize_t channels = shape.size() > 2 ? shape[2] : 1;
      piece[1] = tokens_per_storage_chunk(shape[1], channels * bytes_of(field.element, dtype));
      return piece;
    }
    case Axis::ProbeChunk: return {1, 1, shape[2], shape[3]};
    case Axis::TextByte: return {std::min<hsize_t>(kTextBytesPerStorageChunk, 8 * sizes.tokens)};
    case Axis::MassValue:
      return {
          std::min<hsize_t>(kStorageChunkBytes / 4, sizes.kv_heads * sizes.tokens * sizes.chunks)};
    case Axis::CellEnd: return {std::min(shape[0], kCellsPerStorageChunk)};
    case Axis::Row: return {1, std::clamp<hsize_t>(shape[1], 1, kDeathsPerStorageChunk)};
    case Axis::Selected:
      return {std::clamp<hsize_t>(sizes.chunks * sizes.rows * sizes.tokens, 1,
                                  kPositionsPerStorageChunk)};
    case Axis::MaskByte: return {kMaskBytesPerStorageChunk};
    case Axis::Bound:
    case Axis::QueryBlock:
    case Axis::TableEntry: return {kEntriesPerStorageChunk};
    default: break;
  }
  if (shape.size() == 3) {
    const hsize_t lanes = shape[1] * shape[2];
    return {std::clamp<hsize_t>(kLanesPerStorageChunk / lanes, 1, std::max<hsize_t>(shape[0], 1)),
            shape[1], shape[2]};
  }
  if (field.grows()) return {kRowsPerStorageChunk};
  if (shape.size() == 1) return {std::clamp<hsize_t>(shape[0], 1, kValuesPerStorageChunk)};
  return {std::clamp<hsize_t>(shape[0], 1, kRowsPerStorageChunk), shape[1]};
}

h5::Handle create_field(hid_t file, const FieldInfo& field, const std::string& path,
                        const FieldSizes& sizes, DType dtype) {
  const std::vector<hsize_t> shape = shape_of(field, sizes);
  h5::Handle dataset = create_dataset(file, path, file_type(field.element, dtype), shape,
                                      storage_chunk(field, shape, sizes, dtype), field.grows());
  std::vector<std::string> axes;
  for (const Axis axis : field.axes) {
    if (axis_name(axis) != nullptr) axes.emplace_back(axis_name(axis));
  }
  if (!axes.empty()) {
    h5::write_attribute(dataset.get(), "axes", axes);
    h5::write_attribute(dataset.get(), "units", field.unit);
  }
  if (field.long_name != nullptr) h5::write_attribute(dataset.get(), "long_name", field.long_name);
  return dataset;
}

}  // namespace

hid_t stored_type(DType dtype) { return dtype == DType::F16 ? h5::half_type() : H5T_IEEE_F32LE; }

h5::Dataset open_field(hid_t file, Field id, const FieldSizes& needed, int layer, int run) {
  const FieldInfo& field = info_of(id);
  const std::string path = path_of(field, layer, run);
  const std::vector<hsize_t> shape = shape_of(field, needed);
  h5::Dataset dataset =
      h5::Dataset::open(file, path, class_of(field.element), static_cast<int>(shape.size()));
  const auto& dims = dataset.dims();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (may_exceed(field.axes[i]) ? dims[i] >= shape[i] : dims[i] == shape[i]) continue;
    if (shape.size() == 1)
      throw h5::Defect(
          fmt::format("{} has {} entries where {} are needed", path, dims[0], shape[0]));
    throw h5::Defect(fmt::format("{} has shape [{}] where [{}] is needed", path,
                                 fmt::join(dims, ", "), fmt::join(shape, ", ")));
  }
  if (field.element == Element::Stored && !has_stored_type(dataset))
    throw h5::Defect(path + " is neither float16 nor float32");
  return dataset;
}

h5::Dataset open_if_stored(hid_t file, Field field, const FieldSizes& needed, int layer) {
  if (!h5::has_object(file, path_of(info_of(field), layer))) return {};
  return open_field(file, field, needed, layer);
}

FieldStorage::FieldStorage(hid_t file, const TraceHeader& header)
    : sets_(all_fields().size()),
      written_(all_fields().size()),
      dtype_(header.dtype),
      room_(sizes_of(header)) {
  for (const FieldInfo& field : all_fields()) {
    if (field.of_run() || !(header.store.has_all(field.parts) || field.is_given())) continue;
    auto& sets = sets_.at(static_cast<std::size_t>(field.id));
    for (const int layer : field.by_layer() ? header.layers : std::vector<int>{0})
      sets.push_back(create_field(file, field, path_of(field, layer), room_, header.dtype));
  }
  for (const FieldInfo& field : all_fields())
    if (field.is_given()) fill_given(field);
  // Where the first token or chunk begins.
  const std::uint64_t zero = 0;
  write(Field::TextOffsets, {0}, {1}, &zero);
  write(Field::MassOffsets, {0}, {1}, &zero);
  written_.assign(written_.size(), false);
}

FieldStorage::FieldStorage(hid_t file, const RunInfo& run, int layer, const FieldSizes& room)
    : sets_(all_fields().size()), written_(all_fields().size()) {
  for (const FieldInfo& field : all_fields()) {
    if (!field.of_run() || !parts_of(run).has_all(field.parts)) continue;
    sets_.at(static_cast<std::size_t>(field.id))
        .push_back(create_field(file, field, path_of(field, layer, run.id), room, dtype_));
  }
  const std::int64_t zero = 0;
  for (const Field offsets : {Field::Offsets, Field::ForcedOffsets, Field::TableIndptr})
    write(offsets, {0}, {1}, &zero);
}

hid_t FieldStorage::memory_type(Element element) const {
  switch (element) {
    case Element::UInt8: return H5T_NATIVE_UINT8;
    case Element::UInt16: return H5T_NATIVE_UINT16;
    case Element::Int32: return H5T_NATIVE_INT32;
    case Element::Int64: return H5T_NATIVE_INT64;
    case Element::UInt64: return H5T_NATIVE_UINT64;
    case Element::Float32: return H5T_NATIVE_FLOAT;
    case Element::Stored: break;
  }
  return stored_type(dtype_);
}

void FieldStorage::write(Field id, const std::vector<hsize_t>& start,
                         const std::vector<hsize_t>& count, const void* data,
                         std::size_t layer_idx) {
  if (!has(id)) return;
  const FieldInfo& field = info_of(id);
  const h5::Handle& dataset = sets_[static_cast<std::size_t>(id)].at(layer_idx);
  if (field.grows()) {
    std::vector<hsize_t> end = count;
    end.front() += start.front();
    h5::checked_status(H5Dset_extent(dataset.get(), end.data()),
                       "extend " + h5::name_of(dataset.get()));
  }
  written_[static_cast<std::size_t>(id)] = true;
  if (std::find(count.begin(), count.end(), 0u) != count.end()) return;
  KVLOUPE_CHECK(data != nullptr);
  h5::write_box(dataset.get(), memory_type(field.element), start, count, data);
}

void FieldStorage::write_chunk(Field id, const ChunkInfo& chunk, hsize_t chunk_idx,
                               const void* data, std::size_t size) {
  const FieldInfo& field = info_of(id);
  std::vector<hsize_t> count = shape_of(field, room_), start(count.size(), 0);
  const bool by_token = field.axes.front() == Axis::Token;
  KVLOUPE_CHECK(by_token || field.axes.front() == Axis::Chunk);
  start.front() = by_token ? static_cast<hsize_t>(chunk.begin) : chunk_idx;
  count.front() = by_token ? static_cast<hsize_t>(chunk.length) : 1;
  KVLOUPE_CHECK(size ==
                std::accumulate(count.begin(), count.end(), hsize_t{1}, std::multiplies<>()));
  write(id, start, count, data);
}

void FieldStorage::fill_given(const FieldInfo& field) const {
  KVLOUPE_CHECK(field.element == Element::Float32);
  const std::vector<hsize_t> shape = shape_of(field, room_);
  const std::vector<float> unknown(
      std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>()),
      std::numeric_limits<float>::quiet_NaN());
  h5::write_box(dataset(field.id), H5T_NATIVE_FLOAT, std::vector<hsize_t>(shape.size(), 0), shape,
                unknown.data());
}

bool FieldStorage::end_chunk() {
  bool whole = true;
  for (const FieldInfo& field : all_fields()) {
    const auto id = static_cast<std::size_t>(field.id);
    if (has(field.id) && !field.by_layer() && field.by_chunk() && !field.is_given())
      whole = whole && written_[id];
  }
  written_.assign(written_.size(), false);
  return whole;
}

void FieldStorage::copy_from(hid_t file, const FieldSizes& done) {
  for (const FieldInfo& field : all_fields()) {
    const auto id = static_cast<std::size_t>(field.id);
    if (!field.by_chunk() || written_[id]) continue;
    if (field.is_given()) {
      try {
        if (!open_if_stored(file, field.id, done)) continue;
      } catch (const h5::Defect&) {
        continue;  // nothing depends on it, and who reads the file is warned
      }
    }
    for (const h5::Handle& to : sets_[id])
      copy_values(file, to, class_of(field.element), shape_of(field, done));
    written_[id] = true;
  }
}

void FieldStorage::trim(const FieldSizes& done) const {
  for (const FieldInfo& field : all_fields()) {
    if (!field.by_chunk()) continue;
    const std::vector<hsize_t> shape = shape_of(field, done);
    for (const h5::Handle& dataset : sets_[static_cast<std::size_t>(field.id)])
      h5::checked_status(H5Dset_extent(dataset.get(), shape.data()), "trim the trace");
  }
}

}  // namespace kvloupe::trace
