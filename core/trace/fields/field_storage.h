// The fields of fields.h in an HDF5 file: creating, writing, opening, copying.
#pragma once

#include "core/trace/fields/fields.h"
#include "core/trace/hdf5/hdf5.h"
#include "core/trace/trace_writer.h"

#include <cstdint>
#include <vector>

namespace kvloupe::trace {

hid_t stored_type(DType dtype);

// A dataset whose class, rank and extents are what a trace of these sizes needs. Throws Defect.
h5::Dataset open_field(hid_t file, Field field, const FieldSizes& needed, int layer = 0,
                       int run = 0);
// The same, empty where there is none.
h5::Dataset open_if_stored(hid_t file, Field field, const FieldSizes& needed, int layer = 0);

// All that is needed of it. Throws Defect.
template <typename T>
std::vector<T> read_field(hid_t file, Field field, const FieldSizes& needed, int layer, int run) {
  const std::vector<hsize_t> shape = shape_of(info_of(field), needed);
  return open_field(file, field, needed, layer, run)
      .read_box<T>(std::vector<hsize_t>(shape.size(), 0), shape);
}

// All fields of a file that is written but those of its runs, or those of one run in one layer.
class FieldStorage {
 public:
  FieldStorage() = default;
  // Creates those that the header asks for; their groups are there. What may be given or not
  // (Part::Given) is NaN until write_chunk(): the file's structure must not change between chunks.
  FieldStorage(hid_t file, const TraceHeader& header);

  FieldStorage(hid_t file, const RunInfo& run, int layer, const FieldSizes& room);

  bool has(Field field) const { return !sets_.at(static_cast<std::size_t>(field)).empty(); }
  // A box; a field that grows is extended to its end. Nothing where the field is not stored.
  void write(Field field, const std::vector<hsize_t>& start, const std::vector<hsize_t>& count,
             const void* data, std::size_t layer_idx = 0);
  // The values of one chunk, the `chunk_idx`th, of a field by token or by chunk; `size` of them.
  void write_chunk(Field field, const ChunkInfo& chunk, hsize_t chunk_idx, const void* data,
                   std::size_t size);
  // The dataset of a field that is stored once.
  hid_t dataset(Field field) const { return sets_.at(static_cast<std::size_t>(field)).at(0).get(); }
  // Whether all that has one dataset was written since the last call.
  bool end_chunk();

  // Copies of a file what the chunks done need, but for what was written since the last call.
  void copy_from(hid_t file, const FieldSizes& done);
  // Cuts everything to what the chunks done need.
  void trim(const FieldSizes& done) const;

 private:
  // The datasets of every layer, or one; none where the field is not stored.
  std::vector<std::vector<h5::Handle>> sets_;
  std::vector<bool> written_;
  DType dtype_ = DType::F16;
  FieldSizes room_;  // that a trace has

  void fill_given(const FieldInfo& field) const;
  hid_t memory_type(Element element) const;
};

}  // namespace kvloupe::trace
