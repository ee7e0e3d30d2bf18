// Reading and appending runs beside a trace. An append makes a new file and renames it, so that a
// crash at any time leaves the earlier runs.
#include "core/trace/sidecar.h"

#include "core/base/error.h"
#include "core/base/version.h"
#include "core/base/whole_file.h"
#include "core/trace/run_storage.h"
#include "core/trace/trace_names.h"
#include "core/trace/trace_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

namespace kvloupe::trace {
namespace {

namespace fs = std::filesystem;

// Held while a run is appended: two programs that save at once must not drop each other's run.
class AppendLock {
 public:
  explicit AppendLock(const fs::path& trace_path)
      : descriptor_(::open(trace_path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      ::close(descriptor_);
      throw input_error("cannot save a run beside " + trace_path.string(),
                        "another program is writing the trace or its sidecar",
                        "try again when it has ended");
    }
  }
  ~AppendLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  AppendLock(const AppendLock&) = delete;
  AppendLock& operator=(const AppendLock&) = delete;

 private:
  int descriptor_;
};

void require_shape(const TraceInfo& info, const RunInfo& run, const std::vector<int>& layers,
                   const std::vector<RunLayer>& data) {
  KVLOUPE_CHECK(layers.size() == data.size() && std::is_sorted(layers.begin(), layers.end()));
  const auto rows = static_cast<std::size_t>(num_rows_of(run, info.model));
  const std::size_t lanes = run.granularity == Granularity::Lane
                                ? info.chunks.size() * info.model.num_q_heads * info.model.head_dim
                                : 0;
  std::size_t masks = 0;
  for (const ChunkInfo& chunk : info.chunks) {
    if (run.block_size == 0) break;
    masks += static_cast<std::size_t>(
        packed_mask_bytes(block_grid(chunk, run.block_size), info.model.num_q_heads));
  }
  for (const auto& layer : data) {
    if (layer.num_rows != static_cast<int>(rows) ||
        layer.flags.size() != rows * info.chunks.size() ||
        layer.offsets.size() != layer.flags.size() + 1 || layer.lane_counts.size() != lanes ||
        layer.block_mask.size() != masks) {
      throw input_error(
          "cannot save the run " + run.method,
          fmt::format("its cells are not those of the trace's {} chunks", info.chunks.size()),
          "select all chunks, without --chunk-size, to save a run");
    }
  }
}

void write_layer(hid_t run_group, const TraceInfo& info, const RunInfo& run, int layer,
                 const RunLayer& data) {
  const int rows = data.num_rows;
  const auto num_chunks = static_cast<std::int32_t>(info.chunks.size());
  RunLayerWriter writer(run_group, layer, run, info.model, num_chunks, info.num_tokens);
  const std::span lanes(data.lane_counts);
  const std::size_t lanes_per_chunk =
      lanes.empty() ? 0 : static_cast<std::size_t>(info.model.num_q_heads) * info.model.head_dim;
  std::size_t mask_begin = 0;
  for (int chunk = 0; chunk < num_chunks; ++chunk) {
    std::vector<std::vector<std::int32_t>> cells;
    for (int row = 0; row < rows; ++row) {
      const std::size_t cell = static_cast<std::size_t>(chunk) * rows + row;
      cells.emplace_back(data.positions.begin() + data.offsets[cell],
                         data.positions.begin() + data.offsets[cell + 1]);
    }
    const auto flags = std::span(data.flags).subspan(std::size_t(chunk) * rows, rows);
    const ChunkInfo& span = info.chunks[chunk];
    const std::size_t mask_bytes =
        run.block_size == 0 ? 0
                            : static_cast<std::size_t>(packed_mask_bytes(
                                  block_grid(span, run.block_size), info.model.num_q_heads));
    writer.write_masks(span, std::span(data.block_mask).subspan(mask_begin, mask_bytes));
    mask_begin += mask_bytes;
    writer.write_tables(span, cells, flags);
    writer.write_chunk(chunk, cells, flags);
    writer.write_lanes(chunk, lanes.subspan(std::size_t(chunk) * lanes_per_chunk, lanes_per_chunk));
  }
  writer.write_all_evicted(data.evict_chunk);
}

h5::Handle create_sidecar(const fs::path& path, const std::string& trace_hash) {
  h5::Handle file = h5::checked(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT),
                                "create the sidecar");
  h5::write_attribute(file.get(), "format", std::string(kSidecarFormat));
  h5::write_attribute(file.get(), "schema_version", std::string(kSchemaVersion));
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

// A copy of the sidecar to add to, or a new one.
h5::Handle open_for_append(const fs::path& sidecar, const fs::path& temporary,
                           const std::string& trace_hash) {
  std::error_code code;
  if (!fs::exists(sidecar, code)) return create_sidecar(temporary, trace_hash);
  {
    const h5::Handle old = h5::open_file_for_reading(sidecar.string());
    if (!belongs_to(old.get(), sidecar.string(), trace_hash)) {
      throw input_error("cannot add a run to " + sidecar.string(),
                        "it holds the runs of another trace", "move it away and save again");
    }
  }
  fs::copy_file(sidecar, temporary);
  return h5::checked(H5Fopen(temporary.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open the sidecar");
}

// The keys kept by chunk and layer, for plots.
void write_run_plot(hid_t group, const TraceInfo& info, const std::vector<int>& layers,
                    const std::vector<RunLayer>& data) {
  const std::size_t columns = layers.size();
  std::vector<float> kept(info.chunks.size() * columns);
  for (std::size_t column = 0; column < columns; ++column) {
    const RunLayer& layer = data[column];
    for (std::size_t cell = 0; cell < layer.flags.size(); ++cell) {
      const std::size_t chunk = cell / layer.num_rows;
      const auto count = layer.flags[cell] != 0 ? std::int64_t{info.chunks[chunk].begin}
                                                : layer.offsets[cell + 1] - layer.offsets[cell];
      kept[chunk * columns + column] += static_cast<float>(count) / layer.num_rows;
    }
  }
  write_kept_plot(group, layers, kept);
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
                       const std::vector<int>& layers, const std::vector<RunLayer>& data) {
  const fs::path path = sidecar_path(trace_path);
  const AppendLock append_lock(trace_path);
  const h5::Lock lock;
  try {
    const h5::Handle trace_file = h5::open_file_for_reading(trace_path.string());
    const LoadedTrace trace = load_trace(trace_file.get(), trace_path.string());
    require_shape(trace.info, run, layers, data);
    TemporaryFile temporary(path);
    h5::Handle file = open_for_append(path, temporary.path(), hash_of_trace(trace));
    const auto numbers = h5::numbered_members(h5::open_group(file.get(), "/runs").get());
    RunInfo numbered = run;
    numbered.id = numbers.empty() ? 0 : numbers.back() + 1;
    {
      const h5::Handle group = create_run_group(file.get(), numbered, trace.info.model);
      for (std::size_t i = 0; i < layers.size(); ++i) {
        write_layer(group.get(), trace.info, numbered, layers[i], data[i]);
      }
      write_run_plot(group.get(), trace.info, layers, data);
    }
    h5::checked_status(H5Fflush(file.get(), H5F_SCOPE_LOCAL), "write the sidecar");
    file.reset();
    temporary.commit();
    return first_sidecar_id(trace.info) + numbered.id;
  } catch (const h5::Defect& defect) {
    throw input_error("cannot save the run beside " + trace_path.string(), defect.what(),
                      "check the free space and the permissions of its folder");
  } catch (const fs::filesystem_error& error) {
    throw input_error("cannot save the run beside " + trace_path.string(), error.code().message(),
                      "check the free space and the permissions of its folder");
  }
}

}  // namespace kvloupe::trace
