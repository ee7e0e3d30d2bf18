#include "core/trace/write/trace_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>

namespace kvloupe::trace {
namespace {

constexpr std::uint64_t kPieceBytes = 16 << 20;

void extend(const h5::Handle& dataset, const std::vector<hsize_t>& dims) {
  const h5::Handle space = h5::checked(H5Dget_space(dataset.get()), "read a shape");
  std::vector<hsize_t> extent(dims.size());
  H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr);
  if (extent.front() >= dims.front()) return;
  h5::checked_status(H5Dset_extent(dataset.get(), dims.data()), "extend the trace");
}

}  // namespace

void copy_values(hid_t from, const h5::Handle& to, h5::ValueClass value_class,
                 const std::vector<hsize_t>& dims) {
  if (!to || std::find(dims.begin(), dims.end(), 0u) != dims.end()) return;
  const std::string path = h5::name_of(to.get());
  const auto source = h5::Dataset::open(from, path, value_class, static_cast<int>(dims.size()));
  for (std::size_t axis = 0; axis < dims.size(); ++axis)
    if (source.dims()[axis] < dims[axis]) throw h5::Defect(path + " is shorter than its chunks");
  const h5::Handle type = h5::checked(H5Dget_type(to.get()), "read the type of " + path);
  const std::uint64_t row_bytes = std::accumulate(
      dims.begin() + 1, dims.end(), std::uint64_t{H5Tget_size(type.get())}, std::multiplies<>());
  std::uint64_t values = 1;
  for (const hsize_t size : dims) values *= size;
  source.require_stored(values * source.stored_size());
  extend(to, dims);
  const hsize_t step = std::max<hsize_t>(1, kPieceBytes / row_bytes);
  std::vector<std::byte> piece;
  std::vector<hsize_t> start(dims.size(), 0), count = dims;
  for (; start.front() < dims.front(); start.front() += step) {
    count.front() = std::min(step, dims.front() - start.front());
    piece.resize(count.front() * row_bytes);
    source.read(type.get(), start, count, piece.data());
    h5::write_box(to.get(), type.get(), start, count, piece.data());
  }
}

void copy_run_layer(hid_t from, int number, const TraceInfo& info, const RunInfo& run, int layer,
                    std::int32_t max_tokens, RunLayerWriter& to, float* kept, std::size_t stride) {
  const std::uint64_t bytes = bytes_on_disk(info.path);
  const auto load = [&] {
    const LoadBudget budget(bytes);
    try {
      return load_run_layer(from, number, run, layer, info);
    } catch (const h5::Defect& defect) {
      throw h5::Defect(fmt::format("run {}, layer {}: {}", run.id, layer, defect.what()));
    }
  };
  const RunLayer stored = load();
  std::vector<std::vector<std::uint16_t>> deaths;
  for (std::size_t c = 0; c < info.chunks.size(); ++c) {
    const LoadBudget budget(bytes);
    const LayerRecord record = decode_layer(stored, run, info, layer, static_cast<int>(c));
    const CellRecord& cell = record.cells.front();
    to.write_chunk(encode_cell(cell, info.chunks[c], run, info.model));
    kept[c * stride] = mean_kept(cell, info.chunks[c]);
    if (c == 0) deaths = record.evict_chunk;
  }
  // What dies after the last chunk of a slice is alive in it.
  const std::size_t chunks = info.chunks.size();
  for (auto& row : deaths) {
    row.resize(static_cast<std::size_t>(max_tokens), kAlive);
    std::replace_if(
        row.begin(), row.end(), [&](std::uint16_t after) { return after >= chunks; }, kAlive);
  }
  if (!deaths.empty()) to.write_all_evicted(deaths);
}

}  // namespace kvloupe::trace
