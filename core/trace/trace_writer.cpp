// Recording: everything is allocated before the first chunk, so that afterwards a chunk's bytes go
// to their place in the file and a kill at any time leaves the chunks done.
#include "core/trace/trace_writer.h"

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/trace/fields/field_storage.h"
#include "core/trace/fields/trace_header.h"
#include "core/trace/fields/trace_layout.h"
#include "core/trace/fields/trace_names.h"
#include "core/trace/hdf5/h5_driver.h"
#include "core/trace/hdf5/hdf5.h"
#include "core/trace/load/trace_load.h"
#include "core/trace/runs/run_storage.h"
#include "core/trace/runs/sidecar.h"
#include "core/trace/write/part_file.h"
#include "core/trace/write/trace_copy.h"

#include <algorithm>
#include <optional>
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

// What a capture that was cut short has done, with the runs that its header has again.
TraceSlice all_of(const fs::path& left, const TraceHeader& header) {
  const h5::Handle file = h5::open_file_for_reading(left.string());
  const TraceInfo info = load_trace(file.get(), left.string()).info;
  KVLOUPE_CHECK(info.layers == header.layers && info.runs.size() == header.runs.size());
  TraceSlice slice{left, static_cast<int>(info.chunks.size()), {}};
  for (const RunInfo& run : header.runs) slice.runs.push_back(run.id);
  return slice;
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
  FieldStorage fields;
  std::vector<Run> runs;
  int chunks_done = 0;
  std::int32_t tokens_done = 0;
  FieldSizes done;                   // of the chunks done
  std::size_t probe_layers_now = 0;  // of the chunk under way

  Impl(const fs::path& trace_path, const TraceHeader& trace_header, bool may_overwrite,
       DiskFile own_part)
      : path(trace_path),
        header(trace_header),
        overwrite(may_overwrite),
        part(std::move(own_part)) {}

  void create();
  // Throws Error{Input} that names the slice's trace where a defect is met in it.
  void copy(const TraceSlice& slice, const WorkContext& context);
  void copy_chunks(const TraceSlice& slice, const WorkContext& context);
  void close();
  std::size_t layer_index(int layer) const;
  void require_next(const ChunkInfo& chunk) const;
  void write_heads(Field field, const ChunkInfo& chunk, std::size_t layer_idx, const void* data);
  // Of a field by token or by chunk, for the chunk under way.
  template <typename Values>
  void write(Field field, const ChunkInfo& chunk, const Values& values);
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
  if (!header.request.prompt.empty()) write_request(file.get(), header.request);
  write_groups(file.get(), header);
  fields = FieldStorage(file.get(), header);
  done = sizes_of(header);
  done.tokens = done.chunks = done.queries = 0;
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

void TraceWriter::Impl::copy(const TraceSlice& slice, const WorkContext& context) {
  try {
    copy_chunks(slice, context);
  } catch (const h5::Defect& defect) {
    if (part.failure()) throw;
    throw unreadable_trace(slice.trace.string(), defect.what());
  }
}

// Read again from the start: what is asked of the copy was decided by a reader of its own.
void TraceWriter::Impl::copy_chunks(const TraceSlice& slice, const WorkContext& context) {
  KVLOUPE_CHECK(chunks_done == 0 && slice.runs.size() == runs.size());
  const h5::Handle from = h5::open_file_for_reading(slice.trace.string());
  LoadedTrace source = load_trace(from.get(), slice.trace.string());
  const h5::Handle sidecar = open_sidecar(slice.trace, source);
  TraceInfo& info = source.info;
  KVLOUPE_CHECK(slice.num_chunks <= static_cast<int>(info.chunks.size()) &&
                slice.num_chunks <= header.max_chunks);
  const int first_of_sidecar = first_sidecar_id(info);
  info.chunks.resize(static_cast<std::size_t>(slice.num_chunks));
  info.num_tokens = info.chunks.empty() ? 0 : info.chunks.back().end();
  info.cut_query_offsets();
  KVLOUPE_CHECK(info.num_tokens <= header.max_tokens);
  KVLOUPE_CHECK(info.query_offsets == header.query_offsets || !header.store.has(Part::Qkv));

  std::vector<std::int32_t> ids = load_token_ids(source);
  for (std::int32_t& id : ids) id = std::max(id, 0);
  append_tokens({0, info.num_tokens}, ids, load_token_texts(from.get(), source));
  const FieldSizes sizes = sizes_of(info);
  done.tokens = sizes.tokens;
  done.chunks = sizes.chunks;
  done.queries = sizes.queries;
  done.probe_chunks = sizes.probe_chunks;
  for (const ChunkInfo& chunk : info.chunks) done.mass_values += mass_values(chunk);
  fields.copy_from(from.get(), done);
  KVLOUPE_CHECK(fields.end_chunk());

  const std::size_t layers = header.layers.size();
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const auto stored = std::find_if(info.runs.begin(), info.runs.end(),
                                     [&](const RunInfo& run) { return run.id == slice.runs[r]; });
    KVLOUPE_CHECK(stored != info.runs.end());
    const int number = stored->id - (stored->from_sidecar ? first_of_sidecar : 0);
    const hid_t file_of_run = (stored->from_sidecar ? sidecar : from).get();
    std::vector<float> kept(layers * info.chunks.size());
    for (std::size_t i = 0; i < layers; ++i) {
      context.cancel.throw_if_cancelled();
      context.report(static_cast<std::int64_t>(r * layers + i),
                     static_cast<std::int64_t>(runs.size() * layers), "layers of runs");
      copy_run_layer(file_of_run, number, info, *stored, header.layers[i], header.max_tokens,
                     runs[r].layers[i], kept.data() + i, layers);
    }
    h5::write_box(runs[r].kept.get(), H5T_NATIVE_FLOAT, {0, 0}, {info.chunks.size(), layers},
                  kept.data());
  }
  h5::checked_status(H5Fflush(file.get(), H5F_SCOPE_LOCAL), "write the chunks");
  h5::write_attribute(file.get(), "chunks_done", slice.num_chunks);
  h5::checked_status(H5Fflush(file.get(), H5F_SCOPE_LOCAL), "write the chunks");
  chunks_done = slice.num_chunks;
  tokens_done = info.num_tokens;
}

void TraceWriter::Impl::close() {
  runs.clear();
  fields = {};
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

// The chunk's rows of every head; of what has channels and of what has none.
void TraceWriter::Impl::write_heads(Field field, const ChunkInfo& chunk, std::size_t layer_idx,
                                    const void* data) {
  std::vector<hsize_t> count = shape_of(info_of(field), done), start(count.size(), 0);
  start[1] = static_cast<hsize_t>(chunk.begin);
  count[1] = static_cast<hsize_t>(chunk.length);
  fields.write(field, start, count, data, layer_idx);
}

template <typename Values>
void TraceWriter::Impl::write(Field field, const ChunkInfo& chunk, const Values& values) {
  fields.write_chunk(field, chunk, done.chunks, values.data(), values.size());
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
    ends.push_back(done.text_bytes + bytes.size());
  }
  const auto begin = static_cast<hsize_t>(chunk.begin);
  fields.write(Field::TokenIds, {begin}, {ids.size()}, ids.data());
  fields.write(Field::Text, {done.text_bytes}, {bytes.size()}, bytes.data());
  fields.write(Field::TextOffsets, {begin + 1}, {ends.size()}, ends.data());
  done.text_bytes += bytes.size();
}

void TraceWriter::Impl::append_chunk(const ChunkInfo& chunk) {
  const auto index = static_cast<hsize_t>(chunks_done);
  const auto phase = static_cast<std::uint8_t>(chunk.phase);
  fields.write(Field::ChunkBegin, {index}, {1}, &chunk.begin);
  fields.write(Field::ChunkLength, {index}, {1}, &chunk.length);
  fields.write(Field::ChunkPhase, {index}, {1}, &phase);
  done.mass_values += mass_values(chunk);
  const auto mass_end = static_cast<std::int64_t>(done.mass_values);
  fields.write(Field::MassOffsets, {index + 1}, {1}, &mass_end);
  KVLOUPE_CHECK(fields.end_chunk());
  if (header.probe_len > 0) {
    const bool prefill = chunk.phase == Phase::Prefill;
    KVLOUPE_CHECK(probe_layers_now == (prefill ? header.layers.size() : 0));
    probe_layers_now = 0;
  }
  if (chunk.phase == Phase::Prefill) done.probe_chunks = index + 1;
  for (auto& run : runs) {
    for (const auto& layer : run.layers) KVLOUPE_CHECK(layer.chunks_written() == chunks_done + 1);
    h5::write_box(run.kept.get(), H5T_NATIVE_FLOAT, {index, 0}, {1, run.kept_now.size()},
                  run.kept_now.data());
  }
}

// Cuts the datasets to the chunks done.
void TraceWriter::Impl::trim() {
  fields.trim(done);
  for (auto& run : runs) {
    const hsize_t kept[] = {done.chunks, run.kept_now.size()};
    h5::checked_status(H5Dset_extent(run.kept.get(), kept), "trim the trace");
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
      if (left) impl_->copy(all_of(left->path(), header), {});
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

void TraceWriter::copy(const TraceSlice& from, const WorkContext& context) {
  guarded(impl_->part, [&] { impl_->copy(from, context); });
}

void TraceWriter::write_layer(const ChunkInfo& chunk, const LayerChunk& data) {
  impl_->require_next(chunk);
  KVLOUPE_CHECK(!impl_->fields.has(Field::QueryOffsets));
  const std::size_t layer = impl_->layer_index(data.layer);
  guarded(impl_->part, [&] {
    impl_->write_heads(Field::Q, chunk, layer, data.q);
    impl_->write_heads(Field::K, chunk, layer, data.k);
    impl_->write_heads(Field::V, chunk, layer, data.v);
    impl_->write_heads(Field::Lse, chunk, layer, data.lse);
    const hsize_t mass = impl_->mass_values(chunk);
    if (mass > 0)
      impl_->fields.write(Field::KeyMass, {impl_->done.mass_values}, {mass}, data.key_mass, layer);
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
  const std::size_t layer = impl_->layer_index(data.layer);
  KVLOUPE_CHECK(impl_->fields.has(Field::ProbeQ) && chunk.phase == Phase::Prefill);
  const FieldSizes& sizes = impl_->done;
  guarded(impl_->part, [&] {
    impl_->fields.write(Field::ProbeQ, {sizes.chunks, 0, 0, 0},
                        {1, sizes.q_heads, sizes.probe_tokens, sizes.head_dim}, data.q, layer);
  });
  ++impl_->probe_layers_now;
}

template <typename T>
void TraceWriter::write(Field field, const ChunkInfo& chunk, std::span<const T> values) {
  impl_->require_next(chunk);
  const FieldInfo& described = info_of(field);
  KVLOUPE_CHECK(described.stands_alone() && described.element == element_of<T>());
  KVLOUPE_CHECK(impl_->fields.has(field) || described.is_given());
  guarded(impl_->part, [&] { impl_->write(field, chunk, values); });
}

template void TraceWriter::write(Field, const ChunkInfo&, std::span<const float>);
template void TraceWriter::write(Field, const ChunkInfo&, std::span<const std::int32_t>);

void TraceWriter::write_top(const ChunkInfo& chunk, const TopTokens& top) {
  impl_->require_next(chunk);
  KVLOUPE_CHECK(impl_->fields.has(Field::TopIds));
  guarded(impl_->part, [&] {
    impl_->write(Field::TopIds, chunk, top.ids);
    impl_->write(Field::TopLogProbs, chunk, top.log_probs);
  });
}

void TraceWriter::write_drift(const ChunkInfo& chunk, const DriftChunk& drift) {
  impl_->require_next(chunk);
  KVLOUPE_CHECK(impl_->fields.has(Field::DriftKl));
  guarded(impl_->part, [&] {
    impl_->write(Field::DriftNll, chunk, drift.dense_nll);
    impl_->write(Field::DriftKl, chunk, drift.kl);
    impl_->write(Field::DriftAgrees, chunk, drift.agrees);
    impl_->write(Field::DriftQ, chunk, drift.q);
    impl_->write(Field::DriftK, chunk, drift.k);
    if (!impl_->fields.has(Field::DriftTopIds)) return;
    impl_->write(Field::DriftTopIds, chunk, drift.dense_top.ids);
    impl_->write(Field::DriftTopLogProbs, chunk, drift.dense_top.log_probs);
  });
}

void TraceWriter::write_dense_answer(std::span<const std::int32_t> ids,
                                     std::span<const std::string> texts) {
  FieldStorage& fields = impl_->fields;
  KVLOUPE_CHECK(fields.has(Field::DenseAnswer) && ids.size() == texts.size());
  std::string bytes;
  std::vector<std::uint64_t> offsets = {0};
  for (const std::string& text : texts) {
    bytes += text;
    offsets.push_back(bytes.size());
  }
  guarded(impl_->part, [&] {
    fields.write(Field::DenseAnswer, {0}, {ids.size()}, ids.data());
    fields.write(Field::DenseText, {0}, {bytes.size()}, bytes.data());
    fields.write(Field::DenseTextOffsets, {0}, {offsets.size()}, offsets.data());
  });
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
  impl_->done.chunks = static_cast<hsize_t>(impl_->chunks_done);
  impl_->done.tokens = impl_->done.queries = static_cast<hsize_t>(impl_->tokens_done);
}

void TraceWriter::finish(std::span<const std::int32_t> generated, bool complete) {
  KVLOUPE_CHECK(!impl_->finished);
  guarded(impl_->part, [&] {
    impl_->fields.write(Field::Generated, {0}, {generated.size()}, generated.data());
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

bool TraceWriter::lacks_name_alone() const { return impl_->finished && !impl_->part.failure(); }

}  // namespace kvloupe::trace
