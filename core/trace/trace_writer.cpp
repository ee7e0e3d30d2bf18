// Recording: everything is allocated before the first chunk, so that afterwards a chunk's bytes go
// to their place in the file and a kill at any time leaves the chunks done.
#include "core/trace/trace_writer.h"

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/units.h"
#include "core/trace/h5_driver.h"
#include "core/trace/hdf5.h"
#include "core/trace/part_file.h"
#include "core/trace/run_storage.h"
#include "core/trace/trace_layout.h"
#include "core/trace/trace_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <system_error>
#include <utility>

namespace kvloupe::trace {
namespace {

namespace fs = std::filesystem;

// Runs `body` under the lock; what HDF5 cannot do becomes a sentence about `file`. Nothing is done to
// a file that could not be written before.
template <typename Body>
void guarded(const DiskFile& file, const Body& body) {
  const h5::Lock lock;
  const auto refuse = [&](const std::string& reason) {
    throw input_error("cannot write " + file.path().string(), reason,
                      "check the free space and the permissions of its folder");
  };
  if (file.failure()) refuse(*file.failure());
  try {
    body();
  } catch (const h5::Defect& defect) {
    refuse(file.failure().value_or(defect.what()));
  }
  if (file.failure()) refuse(*file.failure());
}

std::uint64_t expected_bytes(const TraceHeader& header) {
  const auto tokens = static_cast<std::uint64_t>(header.max_tokens);
  const auto layers = static_cast<std::uint64_t>(header.layers.size());
  const auto heads = static_cast<std::uint64_t>(header.model.num_q_heads);
  const auto kv_heads = static_cast<std::uint64_t>(header.model.num_kv_heads);
  const auto dim = static_cast<std::uint64_t>(header.model.head_dim);
  std::uint64_t bytes = 1 << 20;
  if (header.store_qkv) {
    bytes += layers * tokens * (heads + 2 * kv_heads) * dim * element_bytes(header.dtype);
  }
  if (header.store_lse) bytes += layers * tokens * heads * 4;
  // Prefill chunks alone have a probe, and decoded tokens are chunks too: counted as they come.
  if (header.probe_len > 0) bytes += tokens * 4;
  return bytes;
}

void require_space(const fs::path& path, std::uint64_t bytes) {
  std::error_code code;
  const auto space = fs::space(folder_of(path), code);
  if (code || space.available >= bytes) return;
  throw input_error("cannot record " + path.string(),
                    fmt::format("it needs {} and the disk has {} free", format_bytes(bytes),
                                format_bytes(space.available)),
                    "free disk space, or record fewer layers or tokens");
}

void check_header(const TraceHeader& header) {
  const auto& model = header.model;
  KVLOUPE_CHECK(model.num_layers > 0 && model.head_dim > 0 && model.num_kv_heads > 0);
  KVLOUPE_CHECK(model.num_q_heads > 0 && model.num_q_heads % model.num_kv_heads == 0);
  KVLOUPE_CHECK(header.max_tokens > 0 && header.max_chunks > 0 && header.max_chunks < kAlive);
  KVLOUPE_CHECK(std::is_sorted(header.layers.begin(), header.layers.end()));
  KVLOUPE_CHECK(header.layers.empty() ||
                (header.layers.front() >= 0 && header.layers.back() < model.num_layers));
  for (std::size_t i = 0; i < header.runs.size(); ++i) {
    KVLOUPE_CHECK(header.runs[i].id == static_cast<int>(i));
    KVLOUPE_CHECK(header.runs[i].q_heads_per_row > 0 &&
                  model.num_q_heads % header.runs[i].q_heads_per_row == 0);
  }
  KVLOUPE_CHECK(header.probe_len >= 0 && header.probe_len <= kMaxProbeTokens);
  KVLOUPE_CHECK(header.probe_ids.empty() ||
                header.probe_ids.size() == static_cast<std::size_t>(header.probe_len));
}

h5::Handle create_trace(DiskFile& disk) {
  const h5::Handle access = h5::access_to(disk);
  // Metadata reaches the disk at flushes only, never in between in an order that a kill would show.
  H5AC_cache_config_t cache;
  cache.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  H5Pget_mdc_config(access.get(), &cache);
  cache.evictions_enabled = false;
  cache.incr_mode = H5C_incr__off;
  cache.flash_incr_mode = H5C_flash_incr__off;
  cache.decr_mode = H5C_decr__off;
  H5Pset_mdc_config(access.get(), &cache);
  return h5::create_file(disk, access);
}

// The file under its name, as a reader finds it.
void require_written(DiskFile& part, int chunks_done) {
  part.check();
  if (part.failure()) throw h5::Defect(*part.failure());
  const h5::Handle file = h5::open_file_for_reading(part.path().string());
  if (h5::int_attribute(file.get(), "chunks_done") != chunks_done)
    throw h5::Defect("another program changed it meanwhile");
}

struct Run {
  RunInfo info;
  h5::Handle group;
  h5::Handle kept;              // [C, L]
  std::vector<float> kept_now;  // [L], of the chunk under way
  std::vector<RunLayerWriter> layers;
};

}  // namespace

struct TraceWriter::Impl {
  fs::path path;
  TraceHeader header;
  bool overwrite = false;
  bool finished = false;
  DiskFile part;
  h5::Handle file;
  TokenDatasets tokens;
  std::vector<LayerDatasets> layers;
  std::vector<Run> runs;
  int chunks_done = 0;
  std::int32_t tokens_done = 0;
  std::uint64_t text_bytes = 0;
  std::int64_t mass_count = 0;       // values of key_mass per layer
  int probe_chunks = 0;              // chunks up to the last one of prefill
  std::size_t probe_layers_now = 0;  // of the chunk under way
  bool novelty_now = false;

  Impl(const fs::path& trace_path, const TraceHeader& trace_header, bool may_overwrite)
      : path(trace_path),
        header(trace_header),
        overwrite(may_overwrite),
        part(begin_part_file(trace_path, may_overwrite)) {}

  void create();
  void close();
  std::size_t layer_index(int layer) const;
  void require_next(const ChunkInfo& chunk) const;
  void write_heads(const h5::Handle& dataset, int heads, const ChunkInfo& chunk, const void* data);
  std::uint64_t mass_values(const ChunkInfo& chunk) const;
  void append_tokens(const ChunkInfo& chunk, std::span<const std::int32_t> ids,
                     const std::vector<std::string>& texts);
  void append_chunk(const ChunkInfo& chunk);
  void trim();
};

void TraceWriter::Impl::create() {
  file = create_trace(part);
  write_root(file.get(), header);
  write_model(file.get(), header.model);
  write_probe_text(file.get(), header);
  tokens = create_tokens(file.get(), header);
  layers = create_layers(file.get(), header);
  const h5::Handle all_runs = h5::create_group(file.get(), "/runs");
  h5::write_attribute(all_runs.get(), "NX_class", "NXentry");
  if (!header.runs.empty()) h5::write_attribute(all_runs.get(), "default", "0");
  for (const auto& info : header.runs) {
    Run run;
    run.info = info;
    run.group = create_run_group(file.get(), info, header.model);
    run.kept = create_kept_plot(run.group.get(), header.layers, header.max_chunks);
    run.kept_now.resize(header.layers.size());
    for (const int layer : header.layers) {
      run.layers.emplace_back(run.group.get(), layer, info, header.model, header.max_chunks,
                              header.max_tokens);
    }
    runs.push_back(std::move(run));
  }
  h5::checked_status(H5Fflush(file.get(), H5F_SCOPE_LOCAL), "write the file's structure");
}

void TraceWriter::Impl::close() {
  runs.clear();
  layers.clear();
  tokens = {};
  file.reset();
}

std::size_t TraceWriter::Impl::layer_index(int layer) const {
  const auto found = std::lower_bound(header.layers.begin(), header.layers.end(), layer);
  KVLOUPE_CHECK(found != header.layers.end() && *found == layer);
  return static_cast<std::size_t>(found - header.layers.begin());
}

void TraceWriter::Impl::require_next(const ChunkInfo& chunk) const {
  KVLOUPE_CHECK(!finished && chunks_done < header.max_chunks);
  KVLOUPE_CHECK(chunk.begin == tokens_done && chunk.length > 0);
  KVLOUPE_CHECK(chunk.length <= header.max_tokens - chunk.begin);
}

void TraceWriter::Impl::write_heads(const h5::Handle& dataset, int heads, const ChunkInfo& chunk,
                                    const void* data) {
  if (!dataset) return;
  KVLOUPE_CHECK(data != nullptr);
  h5::write_box(dataset.get(), stored_type(header.dtype), {0, static_cast<hsize_t>(chunk.begin), 0},
                {static_cast<hsize_t>(heads), static_cast<hsize_t>(chunk.length),
                 static_cast<hsize_t>(header.model.head_dim)},
                data);
}

// Only prefill chunks have a mass.
std::uint64_t TraceWriter::Impl::mass_values(const ChunkInfo& chunk) const {
  return chunk.phase == Phase::Prefill
             ? static_cast<std::uint64_t>(header.model.num_kv_heads) * chunk.end()
             : 0;
}

void TraceWriter::Impl::append_tokens(const ChunkInfo& chunk, std::span<const std::int32_t> ids,
                                      const std::vector<std::string>& texts) {
  std::string bytes;
  std::vector<std::uint64_t> ends;
  for (const auto& text : texts) {
    bytes += text;
    ends.push_back(text_bytes + bytes.size());
  }
  const auto begin = static_cast<hsize_t>(chunk.begin);
  h5::write_box(tokens.ids.get(), H5T_NATIVE_INT32, {begin}, {ids.size()}, ids.data());
  if (!bytes.empty()) {
    const hsize_t size = text_bytes + bytes.size();
    h5::checked_status(H5Dset_extent(tokens.text.get(), &size), "extend the text");
    h5::write_box(tokens.text.get(), H5T_NATIVE_UINT8, {text_bytes}, {bytes.size()}, bytes.data());
  }
  h5::write_box(tokens.text_offsets.get(), H5T_NATIVE_UINT64, {begin + 1}, {ends.size()},
                ends.data());
  text_bytes += bytes.size();
}

void TraceWriter::Impl::append_chunk(const ChunkInfo& chunk) {
  const auto index = static_cast<hsize_t>(chunks_done);
  const auto phase = static_cast<std::uint8_t>(chunk.phase);
  h5::write_box(tokens.begin.get(), H5T_NATIVE_INT32, {index}, {1}, &chunk.begin);
  h5::write_box(tokens.length.get(), H5T_NATIVE_INT32, {index}, {1}, &chunk.length);
  h5::write_box(tokens.phase.get(), H5T_NATIVE_UINT8, {index}, {1}, &phase);
  mass_count += static_cast<std::int64_t>(mass_values(chunk));
  if (tokens.mass_offsets) {
    h5::write_box(tokens.mass_offsets.get(), H5T_NATIVE_INT64, {index + 1}, {1}, &mass_count);
  }
  if (header.probe_len > 0) {
    const bool prefill = chunk.phase == Phase::Prefill;
    KVLOUPE_CHECK(novelty_now && probe_layers_now == (prefill ? layers.size() : 0));
    if (prefill) probe_chunks = chunks_done + 1;
    novelty_now = false;
    probe_layers_now = 0;
  }
  for (auto& run : runs) {
    for (const auto& layer : run.layers) KVLOUPE_CHECK(layer.chunks_written() == chunks_done + 1);
    h5::write_box(run.kept.get(), H5T_NATIVE_FLOAT, {index, 0}, {1, run.kept_now.size()},
                  run.kept_now.data());
  }
}

// Cuts the datasets to the chunks done.
void TraceWriter::Impl::trim() {
  const auto resize = [](const h5::Handle& dataset, const std::vector<hsize_t>& dims) {
    if (dataset) h5::checked_status(H5Dset_extent(dataset.get(), dims.data()), "trim the trace");
  };
  const auto token_count = static_cast<hsize_t>(tokens_done);
  const auto chunk_count = static_cast<hsize_t>(chunks_done);
  const auto q_heads = static_cast<hsize_t>(header.model.num_q_heads);
  const auto kv_heads = static_cast<hsize_t>(header.model.num_kv_heads);
  const auto dim = static_cast<hsize_t>(header.model.head_dim);
  resize(tokens.ids, {token_count});
  resize(tokens.nll, {token_count});
  resize(tokens.text, {text_bytes});
  resize(tokens.text_offsets, {token_count + 1});
  for (const auto* dataset : {&tokens.begin, &tokens.length, &tokens.phase}) {
    resize(*dataset, {chunk_count});
  }
  resize(tokens.mass_offsets, {chunk_count + 1});
  for (const auto& layer : layers) {
    resize(layer.q, {q_heads, token_count, dim});
    resize(layer.k, {kv_heads, token_count, dim});
    resize(layer.v, {kv_heads, token_count, dim});
    resize(layer.lse, {q_heads, token_count});
    resize(layer.key_mass, {static_cast<hsize_t>(mass_count)});
    resize(layer.probe_q, {static_cast<hsize_t>(probe_chunks), q_heads,
                           static_cast<hsize_t>(header.probe_len), dim});
  }
  for (auto& run : runs) {
    resize(run.kept, {chunk_count, run.kept_now.size()});
    for (auto& layer : run.layers) layer.trim(chunks_done, tokens_done);
  }
}

TraceWriter::TraceWriter(const fs::path& path, const TraceHeader& header, bool overwrite) {
  check_header(header);
  check_trace_file(path, overwrite);
  require_space(path, expected_bytes(header));
  impl_ = std::make_unique<Impl>(path, header, overwrite);
  try {
    guarded(impl_->part, [&] { impl_->create(); });
  } catch (...) {
    abandon();
    throw;
  }
}

TraceWriter::~TraceWriter() {
  if (!impl_->finished) abandon();
}

void TraceWriter::abandon() {
  const h5::Lock lock;
  impl_->close();
  if (impl_->chunks_done == 0) remove_part_file(impl_->part);
}

void TraceWriter::write_layer(const ChunkInfo& chunk, const LayerChunk& data) {
  impl_->require_next(chunk);
  const auto& sets = impl_->layers.at(impl_->layer_index(data.layer));
  const auto& model = impl_->header.model;
  guarded(impl_->part, [&] {
    impl_->write_heads(sets.q, model.num_q_heads, chunk, data.q);
    impl_->write_heads(sets.k, model.num_kv_heads, chunk, data.k);
    impl_->write_heads(sets.v, model.num_kv_heads, chunk, data.v);
    if (sets.lse) {
      KVLOUPE_CHECK(data.lse != nullptr);
      h5::write_box(sets.lse.get(), H5T_NATIVE_FLOAT, {0, static_cast<hsize_t>(chunk.begin)},
                    {static_cast<hsize_t>(model.num_q_heads), static_cast<hsize_t>(chunk.length)},
                    data.lse);
    }
    const std::uint64_t mass = impl_->mass_values(chunk);
    if (sets.key_mass && mass > 0) {
      KVLOUPE_CHECK(data.key_mass != nullptr);
      const auto begin = static_cast<hsize_t>(impl_->mass_count);
      const hsize_t end = begin + mass;
      h5::checked_status(H5Dset_extent(sets.key_mass.get(), &end), "extend key_mass");
      h5::write_box(sets.key_mass.get(), H5T_NATIVE_FLOAT, {begin}, {mass}, data.key_mass);
    }
  });
}

void TraceWriter::write_run(const ChunkInfo& chunk, const RunChunk& data) {
  impl_->require_next(chunk);
  auto& run = impl_->runs.at(data.run);
  const std::size_t index = impl_->layer_index(data.layer);
  guarded(impl_->part, [&] {
    RunLayerWriter& layer = run.layers[index];
    KVLOUPE_CHECK(layer.chunks_written() == impl_->chunks_done);
    layer.write_chunk(encode_cell(data.record, chunk, run.info, impl_->header.model));
    layer.write_evicted(impl_->chunks_done, data.evicted);
    run.kept_now[index] = mean_kept(data.record, chunk);
  });
}

void TraceWriter::write_probe(const ChunkInfo& chunk, const ProbeChunk& data) {
  impl_->require_next(chunk);
  const h5::Handle& probe_q = impl_->layers.at(impl_->layer_index(data.layer)).probe_q;
  KVLOUPE_CHECK(probe_q && data.q != nullptr && chunk.phase == Phase::Prefill);
  const auto index = static_cast<hsize_t>(impl_->chunks_done);
  const auto heads = static_cast<hsize_t>(impl_->header.model.num_q_heads);
  const auto tokens = static_cast<hsize_t>(impl_->header.probe_len);
  const auto dim = static_cast<hsize_t>(impl_->header.model.head_dim);
  guarded(impl_->part, [&] {
    const hsize_t extent[] = {index + 1, heads, tokens, dim};
    h5::checked_status(H5Dset_extent(probe_q.get(), extent), "extend probe_q");
    h5::write_box(probe_q.get(), stored_type(impl_->header.dtype), {index, 0, 0, 0},
                  {1, heads, tokens, dim}, data.q);
  });
  ++impl_->probe_layers_now;
}

void TraceWriter::write_novelty(const ChunkInfo& chunk, std::span<const float> novelty) {
  impl_->require_next(chunk);
  KVLOUPE_CHECK(impl_->tokens.nll && novelty.size() == static_cast<std::size_t>(chunk.length));
  guarded(impl_->part, [&] {
    h5::write_box(impl_->tokens.nll.get(), H5T_NATIVE_FLOAT, {static_cast<hsize_t>(chunk.begin)},
                  {novelty.size()}, novelty.data());
  });
  impl_->novelty_now = true;
}

void TraceWriter::end_chunk(const ChunkInfo& chunk, std::span<const std::int32_t> ids,
                            const std::vector<std::string>& texts) {
  impl_->require_next(chunk);
  KVLOUPE_CHECK(ids.size() == static_cast<std::size_t>(chunk.length) && texts.size() == ids.size());
  guarded(impl_->part, [&] {
    impl_->append_tokens(chunk, ids, texts);
    impl_->append_chunk(chunk);
    // The chunk's values first, then the number that makes them count.
    h5::checked_status(H5Fflush(impl_->file.get(), H5F_SCOPE_LOCAL), "write the chunk");
    h5::write_attribute(impl_->file.get(), "chunks_done", impl_->chunks_done + 1);
    h5::checked_status(H5Fflush(impl_->file.get(), H5F_SCOPE_LOCAL), "write the chunk");
  });
  ++impl_->chunks_done;
  impl_->tokens_done = chunk.end();
}

void TraceWriter::finish(std::span<const std::int32_t> generated, bool complete) {
  KVLOUPE_CHECK(!impl_->finished);
  guarded(impl_->part, [&] {
    const hsize_t count = generated.size();
    const h5::Handle dataset = h5::checked(
        H5Dopen2(impl_->file.get(), "/tokens/generated", H5P_DEFAULT), "open the generated tokens");
    h5::checked_status(H5Dset_extent(dataset.get(), &count), "extend the generated tokens");
    h5::write_box(dataset.get(), H5T_NATIVE_INT32, {0}, {count}, generated.data());
    h5::checked_status(H5Fflush(impl_->file.get(), H5F_SCOPE_LOCAL), "write the trace");
    // Not before all that is new is on the disk: the room that this frees may be used again.
    impl_->trim();
    h5::checked_status(H5Fflush(impl_->file.get(), H5F_SCOPE_LOCAL), "write the trace");
    h5::write_attribute(impl_->file.get(), "complete", complete ? 1 : 0);
    h5::checked_status(H5Fflush(impl_->file.get(), H5F_SCOPE_LOCAL), "write the trace");
    impl_->close();
    require_written(impl_->part, impl_->chunks_done);
  });
  impl_->finished = true;
  publish_part_file(impl_->part, impl_->path, impl_->overwrite);
}

}  // namespace kvloupe::trace
