// Reading and appending runs beside a trace. An append makes a new file and renames it, so that a
// crash at any time leaves the earlier runs.
#include "core/trace/runs/sidecar.h"

#include "core/base/error.h"
#include "core/base/file_lock.h"
#include "core/base/version.h"
#include "core/base/whole_file.h"
#include "core/trace/fields/attributes.h"
#include "core/trace/fields/trace_names.h"
#include "core/trace/hdf5/h5_driver.h"
#include "core/trace/runs/run_storage.h"
#include "core/trace/trace_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

namespace kvloupe::trace {
namespace {

namespace fs = std::filesystem;

// Held while a run is appended: two programs that save at once must not drop each other's run.
FileLock append_lock(const fs::path& trace_path) {
  FileLock lock = FileLock::of_existing(trace_path);
  if (!lock.held())
    throw input_error("cannot save a run beside " + trace_path.string(),
                      "another program is writing the trace or its sidecar",
                      "try again when it has ended");
  return lock;
}

bool fits(const CellRecord& cell, const TraceInfo& info, const RunInfo& run,
          const ChunkInfo& chunk) {
  const std::size_t lanes =
      run.granularity == Granularity::Lane ? info.model.num_q_heads * info.model.head_dim : 0;
  return cell.rows.size() == static_cast<std::size_t>(num_rows_of(run, info.model)) &&
         cell.lane_counts.size() == lanes &&
         (!cell.blocks || cell.blocks->grid == block_grid(chunk, run.block_size));
}

void require_shape(const TraceInfo& info, const RunInfo& run, const std::vector<int>& layers,
                   const std::vector<LayerRecord>& data) {
  KVLOUPE_CHECK(layers.size() == data.size() && std::is_sorted(layers.begin(), layers.end()));
  for (const LayerRecord& layer : data) {
    bool sound = layer.cells.size() == info.chunks.size();
    for (std::size_t c = 0; sound && c < info.chunks.size(); ++c) {
      sound = fits(layer.cells[c], info, run, info.chunks[c]);
    }
    if (!sound) {
      throw input_error(
          "cannot save the run " + run.method,
          fmt::format("its cells are not those of the trace's {} chunks", info.chunks.size()),
          "select all chunks, without --chunk-size, to save a run");
    }
  }
}

void write_layer(hid_t run_group, const TraceInfo& info, const RunInfo& run, int layer,
                 const LayerRecord& data) {
  RunLayerWriter writer(run_group, layer, run, info.model,
                        static_cast<std::int32_t>(info.chunks.size()), info.num_tokens);
  for (std::size_t c = 0; c < info.chunks.size(); ++c) {
    writer.write_chunk(encode_cell(data.cells[c], info.chunks[c], run, info.model));
  }
  writer.write_all_evicted(data.evict_chunk);
}

h5::Handle create_sidecar(DiskFile& disk, const std::string& trace_hash) {
  h5::Handle file = h5::create_file(disk, h5::access_to(disk));
  h5::write_attribute(file.get(), "format", std::string(kSidecarFormat));
  h5::write_attribute(file.get(), "schema_version", schema_version());
  h5::write_attribute(file.get(), "producer", "kvloupe " + version());
  h5::write_attribute(file.get(), "trace_hash", trace_hash);
  h5::write_attribute(file.get(), "NX_class", "NXroot");
  h5::write_attribute(file.get(), "default", "runs");
  const h5::Handle runs = h5::create_group(file.get(), "/runs");
  h5::write_attribute(runs.get(), "NX_class", "NXentry");
  h5::write_attribute(runs.get(), "default", "0");
  return file;
}

bool belongs_to(hid_t sidecar, const std::string& path, const std::string& trace_hash) {
  require_format(sidecar, path, kSidecarFormat, "a sidecar of runs");
  return h5::string_attribute(sidecar, "trace_hash") == trace_hash;
}

// At `temporary`, a copy of the sidecar to add to, or nothing yet.
DiskFile begin_append(const fs::path& sidecar, const fs::path& temporary,
                      const std::string& trace_hash) {
  std::error_code code;
  if (!fs::exists(sidecar, code)) return DiskFile::create(temporary);
  {
    const h5::Handle old = h5::open_file_for_reading(sidecar.string());
    if (!belongs_to(old.get(), sidecar.string(), trace_hash)) {
      throw input_error("cannot add a run to " + sidecar.string(),
                        "it holds the runs of another trace", "move it away and save again");
    }
  }
  fs::copy_file(sidecar, temporary);
  return DiskFile::open(temporary);
}

int next_number(hid_t sidecar) {
  const auto numbers = h5::numbered_members(h5::open_group(sidecar, "/runs").get());
  return numbers.empty() ? 0 : numbers.back() + 1;
}

// The keys kept by chunk and layer, for plots.
void write_run_plot(hid_t group, const TraceInfo& info, const std::vector<int>& layers,
                    const std::vector<LayerRecord>& data) {
  std::vector<float> kept;
  for (std::size_t c = 0; c < info.chunks.size(); ++c) {
    for (const LayerRecord& layer : data) kept.push_back(mean_kept(layer.cells[c], info.chunks[c]));
  }
  write_kept_plot(group, layers, kept);
}

void write_run(hid_t sidecar, const TraceInfo& info, const RunInfo& run,
               const std::vector<int>& layers, const std::vector<LayerRecord>& data) {
  const h5::Handle group = create_run_group(sidecar, run, info.model);
  for (std::size_t i = 0; i < layers.size(); ++i)
    write_layer(group.get(), info, run, layers[i], data[i]);
  write_run_plot(group.get(), info, layers, data);
}

}  // namespace

fs::path sidecar_path(const fs::path& trace_path) {
  fs::path path = trace_path;
  path += ".runs.h5";
  return path;
}

int first_sidecar_id(const TraceInfo& info) {
  int first = 0;
  for (const auto& run : info.runs) {
    if (!run.from_sidecar) first = std::max(first, run.id + 1);
  }
  return first;
}

std::uint64_t bytes_on_disk(const std::string& trace_path) {
  std::uint64_t bytes = 0;
  for (const fs::path& path : {fs::path(trace_path), sidecar_path(trace_path)}) {
    std::error_code code;
    const auto size = fs::file_size(path, code);
    if (!code) bytes += size;
  }
  return bytes;
}

h5::Handle open_sidecar(const fs::path& trace_path, LoadedTrace& trace) {
  const fs::path path = sidecar_path(trace_path);
  std::error_code code;
  if (!fs::exists(path, code)) return {};
  auto& info = trace.info;
  try {
    h5::Handle file = h5::open_file_for_reading(path.string());
    if (!belongs_to(file.get(), path.string(), hash_of_trace(trace))) {
      throw h5::Defect("it holds the runs of another trace");
    }
    load_runs(file.get(), info.model, first_sidecar_id(info), true, info.runs, info.warnings);
    return file;
  } catch (const h5::Defect& defect) {
    info.warnings.push_back(fmt::format("{} is left out: {}", path.string(), defect.what()));
  } catch (const Error& error) {
    info.warnings.push_back(fmt::format("{} is left out: {}", path.string(), error.why()));
  }
  return {};
}

int append_sidecar_run(const fs::path& trace_path, const RunInfo& run,
                       const std::vector<int>& layers, const std::vector<LayerRecord>& data) {
  const fs::path path = sidecar_path(trace_path);
  const FileLock alone = append_lock(trace_path);
  const h5::Lock lock;
  const LoadBudget budget(bytes_on_disk(trace_path.string()));
  return h5::written("save the run beside " + trace_path.string(), [&] {
    const h5::Handle trace_file = h5::open_file_for_reading(trace_path.string());
    const LoadedTrace trace = load_trace(trace_file.get(), trace_path.string());
    require_shape(trace.info, run, layers, data);
    TemporaryFile temporary(path);
    const std::string trace_hash = hash_of_trace(trace);
    DiskFile disk = begin_append(path, temporary.path(), trace_hash);
    h5::Handle file = disk.size() == 0 ? create_sidecar(disk, trace_hash)
                                       : h5::open_file_for_writing(disk, h5::access_to(disk));
    RunInfo numbered = run;
    numbered.id = next_number(file.get());
    write_run(file.get(), trace.info, numbered, layers, data);
    h5::close_written(file, disk);
    temporary.commit();
    return first_sidecar_id(trace.info) + numbered.id;
  });
}

}  // namespace kvloupe::trace
