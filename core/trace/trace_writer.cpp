// Recording: everything is allocated before the first chunk, so that afterwards a chunk's bytes go
// to their place in the file and a kill at any time leaves the chunks done.
#include "core/trace/trace_writer.h"

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/units.h"
#include "core/trace/foretold_storage.h"
#include "core/trace/h5_driver.h"
#include "core/trace/hdf5.h"
#include "core/trace/part_file.h"
#include "core/trace/run_storage.h"
#include "core/trace/take_over.h"
#include "core/trace/trace_header.h"
#include "core/trace/trace_layout.h"
#include "core/trace/trace_load.h"
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

// The file as the next reader finds it, past all that this process may know of it.
void require_written(DiskFile& part, int chunks_done) {
  part.check();
  if (part.failure()) throw h5::Defect(*part.failure());
  const h5::Handle access = h5::access_to(part);
  const h5::Handle file =
      h5::checked(H5Fopen(part.path().c_str(), H5F_ACC_RDONLY, access.get()), "read it back");
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
  ForetoldStorage foretold;
  std::vector<LayerDatasets> layers;
  std::vector<Run> runs;
  int chunks_done = 0;
  std::int32_t tokens_done = 0;
  std::uint64_t text_bytes = 0;
  std::int64_t mass_count = 0;       // values of key_mass per layer
  int probe_chunks = 0;              // chunks up to the last one of prefill
  std::size_t probe_layers_now = 0;  // of the chunk under way
  bool novelty_now = false;

  Impl(const fs::path& trace_path, const TraceHeader& trace_header, bool may_overwrite,
       DiskFile own_part)
      : path(trace_path),
        header(trace_header),
        overwrite(may_overwrite),
        part(std::move(own_part)) {}

  void create();
  void take_over(const fs::path& left);
  void close();
  std::size_t layer_index(int layer) const;
  void require_next(const ChunkInfo& chunk) const;
  void write_heads(const h5::Handle& dataset, int heads, const ChunkInfo& chunk, const void* data);
  std::uint64_t mass_values(const ChunkInfo& chunk) const;
  void append_tokens(const ChunkInfo& chunk, std::span<const std::int32_t> ids,
                     const std::vector<std::string>& texts);
  void append_chunk(const ChunkInfo& chunk);
  template <typename Visit>
  void for_each_dataset(const Visit& visit) const;
  void trim();
};

void TraceWriter::Impl::create() {
  file = create_trace(part);
  write_root(file.get(), header);
  write_model(file.get(), header.model);
  write_probe_text(file.get(), header);
  if (!header.request.prompt.empty()) write_request(file.get(), header.request);
  tokens = create_tokens(file.get(), header);
  foretold = ForetoldStorage(file.get(), header);
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

// All that belongs to the chunks done in `left`.
void TraceWriter::Impl::take_over(const fs::path& left) {
  const h5::Handle from = h5::open_file_for_reading(left.string());
  const TraceInfo info = load_trace(from.get(), left.string()).info;
  KVLOUPE_CHECK(info.layers == header.layers && info.runs.size() == runs.size());
  KVLOUPE_CHECK(info.chunks.size() <= static_cast<std::size_t>(header.max_chunks) &&
                info.num_tokens <= header.max_tokens);
  chunks_done = static_cast<int>(info.chunks.size());
  tokens_done = info.num_tokens;
  for (int c = 0; c < chunks_done; ++c) {
    mass_count += static_cast<std::int64_t>(mass_values(info.chunks[c]));
    if (info.chunks[c].phase == Phase::Prefill) probe_chunks = c + 1;
  }
  const auto offsets =
      h5::Dataset::open(from.get(), "/tokens/text_offsets", h5::ValueClass::Integer, 1);
  text_bytes = offsets.read_range<std::uint64_t>(tokens_done, 1).front();
  for_each_dataset(
      [&](const h5::Handle& dataset, h5::ValueClass value_class, const std::vector<hsize_t>& dims) {
        copy_values(from.get(), dataset, value_class, dims);
      });
  for (auto& run : runs) {
    std::vector<float> kept(header.layers.size() * chunks_done);
    for (std::size_t i = 0; i < header.layers.size(); ++i) {
      copy_run_layer(from.get(), info, run.info, header.layers[i], header.max_tokens, run.layers[i],
                     kept.data() + i, header.layers.size());
    }
    h5::write_box(run.kept.get(), H5T_NATIVE_FLOAT, {0, 0},
                  {static_cast<hsize_t>(chunks_done), header.layers.size()}, kept.data());
  }
  h5::write_attribute(file.get(), "chunks_done", chunks_done);
  h5::checked_status(H5Fflush(file.get(), H5F_SCOPE_LOCAL), "write the chunks done");
}

void TraceWriter::Impl::close() {
  runs.clear();
  layers.clear();
  tokens = {};
  foretold = {};
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
  KVLOUPE_CHECK(novelty_now == static_cast<bool>(tokens.nll) && foretold.end_chunk());
  novelty_now = false;
  if (header.probe_len > 0) {
    const bool prefill = chunk.phase == Phase::Prefill;
    KVLOUPE_CHECK(probe_layers_now == (prefill ? layers.size() : 0));
    if (prefill) probe_chunks = chunks_done + 1;
    probe_layers_now = 0;
  }
  for (auto& run : runs) {
    for (const auto& layer : run.layers) KVLOUPE_CHECK(layer.chunks_written() == chunks_done + 1);
    h5::write_box(run.kept.get(), H5T_NATIVE_FLOAT, {index, 0}, {1, run.kept_now.size()},
                  run.kept_now.data());
  }
}

// Every dataset but those of the runs, with the shape that the chunks done need.
template <typename Visit>
void TraceWriter::Impl::for_each_dataset(const Visit& visit) const {
  using enum h5::ValueClass;
  const auto token_count = static_cast<hsize_t>(tokens_done);
  const auto chunk_count = static_cast<hsize_t>(chunks_done);
  const auto q_heads = static_cast<hsize_t>(header.model.num_q_heads);
  const auto kv_heads = static_cast<hsize_t>(header.model.num_kv_heads);
  const auto dim = static_cast<hsize_t>(header.model.head_dim);
  visit(tokens.ids, Integer, {token_count});
  visit(tokens.nll, Float, {token_count});
  visit(tokens.text, Integer, {text_bytes});
  visit(tokens.text_offsets, Integer, {token_count + 1});
  for (const auto* dataset : {&tokens.begin, &tokens.length, &tokens.phase}) {
    visit(*dataset, Integer, {chunk_count});
  }
  visit(tokens.mass_offsets, Integer, {chunk_count + 1});
  foretold.for_each_dataset(tokens_done, chunks_done, visit);
  for (const auto& layer : layers) {
    visit(layer.q, Float, {q_heads, token_count, dim});
    visit(layer.k, Float, {kv_heads, token_count, dim});
    visit(layer.v, Float, {kv_heads, token_count, dim});
    visit(layer.lse, Float, {q_heads, token_count});
    visit(layer.key_mass, Float, {static_cast<hsize_t>(mass_count)});
    visit(
        layer.probe_q, Float,
        {static_cast<hsize_t>(probe_chunks), q_heads, static_cast<hsize_t>(header.probe_len), dim});
  }
}

// Cuts the datasets to the chunks done.
void TraceWriter::Impl::trim() {
  const auto resize = [](const h5::Handle& dataset, h5::ValueClass,
                         const std::vector<hsize_t>& dims) {
    if (dataset) h5::checked_status(H5Dset_extent(dataset.get(), dims.data()), "trim the trace");
  };
  for_each_dataset(resize);
  for (auto& run : runs) {
    resize(run.kept, h5::ValueClass::Float,
           {static_cast<hsize_t>(chunks_done), run.kept_now.size()});
    for (auto& layer : run.layers) layer.trim(chunks_done, tokens_done);
  }
}

TraceWriter::TraceWriter(const fs::path& path, const TraceHeader& header, bool overwrite,
                         Begin begin) {
  check_header(header);
  const fs::path target = output_target(path);
  std::optional<DiskFile> left;
  if (begin == Begin::Resumed) {
    left.emplace(open_left_part(target, {}, overwrite));
  } else {
    check_trace_file(path, {}, overwrite);
  }
  require_space(target, header);
  impl_ = std::make_unique<Impl>(
      target, header, overwrite,
      left ? begin_resumed_part(target) : begin_part_file(target, overwrite));
  try {
    guarded(impl_->part, [&] {
      impl_->create();
      if (left) impl_->take_over(left->path());
    });
    if (left) become_part(impl_->part, target);
  } catch (...) {
    impl_->chunks_done = 0;  // nothing is done in this file
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

void TraceWriter::write_top(const ChunkInfo& chunk, const TopTokens& top) {
  impl_->require_next(chunk);
  guarded(impl_->part, [&] { impl_->foretold.write_top(impl_->chunks_done, top); });
}

void TraceWriter::write_drift(const ChunkInfo& chunk, const DriftChunk& drift) {
  impl_->require_next(chunk);
  guarded(impl_->part, [&] { impl_->foretold.write_drift(impl_->chunks_done, chunk, drift); });
}

void TraceWriter::write_dense_answer(std::span<const std::int32_t> ids,
                                     std::span<const std::string> texts) {
  guarded(impl_->part, [&] { impl_->foretold.write_dense_answer(ids, texts); });
}

void TraceWriter::write_speed(const CaptureSpeed& speed) {
  KVLOUPE_CHECK(!impl_->header.request.prompt.empty());
  guarded(impl_->part, [&] { trace::write_speed(impl_->file.get(), speed); });
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
