// The public reader: every call takes the lock, and what is wrong in the file names the file.
#include "core/trace/trace_reader.h"
#include "core/trace/write/part_file.h"

#include "core/base/error.h"
#include "core/trace/hdf5/hdf5.h"
#include "core/trace/load/trace_load.h"
#include "core/trace/queries_note.h"
#include "core/trace/runs/sidecar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace kvloupe::trace {
namespace {

namespace fs = std::filesystem;

template <typename Body>
auto guarded(const std::string& path, const Body& body) {
  const h5::Lock lock;
  const LoadBudget budget(bytes_on_disk(path));
  try {
    return body();
  } catch (const h5::Defect& defect) {
    throw unreadable_trace(path, defect.what());
  }
}

const h5::Dataset& heads_of(const LayerSources& sources, Stored what) {
  switch (what) {
    case Stored::Q: return sources.q;
    case Stored::K: return sources.k;
    case Stored::V: break;
  }
  return sources.v;
}

h5::Handle open_trace(const fs::path& path) {
  std::error_code code;
  if (!fs::exists(path, code)) {
    // Our build of HDF5 has no driver that reads a part of a file over HTTP.
    if (path.string().find(":/") != std::string::npos)
      throw input_error(
          "cannot open " + path.string(), "it is an address, and traces are read from a disk",
          "cut it where it lies, kvloupe slice T.h5 --layers 3-5 -o S.h5, and copy S.h5");
    const fs::path part = part_path(path);
    throw input_error("cannot open " + path.string(), "there is no such file",
                      fs::exists(part, code)
                          ? "open " + part.string() + ", which a capture left unfinished"
                          : "check the path");
  }
  if (fs::is_directory(path, code)) {
    throw input_error("cannot open " + path.string(), "it is a folder", "name a trace in it");
  }
  if (!fs::is_regular_file(path, code)) {
    throw input_error("cannot open " + path.string(), "it is no regular file",
                      "copy what it gives to a file and name that");
  }
  if (::access(path.c_str(), R_OK) != 0) {
    throw input_error("cannot open " + path.string(), std::strerror(errno),
                      "check the permissions of the file");
  }
  try {
    return h5::open_file_for_reading(path.string());
  } catch (const h5::Defect& defect) {
    throw input_error("cannot open " + path.string(),
                      fmt::format("it is no HDF5 file, or it is damaged ({})", defect.what()),
                      "name a trace that kvloupe capture made");
  }
}

// No damage: what goes over all chunks passes over those without queries, and this is where it is said.
void add_queries_warning(TraceInfo& info) {
  if (std::string note = queries_note(info); !note.empty())
    info.warnings.push_back(std::move(note));
}

// No damage: layer_types says less than the attributes of a layer, which decide.
void add_window_warnings(TraceInfo& info) {
  for (const int layer : info.layers) {
    if (info.model.lacks_window(layer)) {
      info.warnings.push_back(
          fmt::format("layer {} is of type sliding and has no window: its queries are taken to see "
                      "all keys before them",
                      layer));
    }
  }
}

}  // namespace

struct TraceReader::Impl {
  h5::Handle file;
  h5::Handle sidecar;
  LoadedTrace trace;

  const TraceInfo& info() const { return trace.info; }

  // Where a run's layer stands: in the trace or in its sidecar.
  struct RunSource {
    hid_t file;
    int number;
    const RunInfo* run;
  };
  std::optional<RunSource> find_run_layer(int run, int layer) const {
    const auto& runs = info().runs;
    const auto found = std::find_if(runs.begin(), runs.end(),
                                    [&](const RunInfo& candidate) { return candidate.id == run; });
    if (found == runs.end()) return std::nullopt;
    const RunSource source = {found->from_sidecar ? sidecar.get() : file.get(),
                              found->from_sidecar ? run - first_sidecar_id(info()) : run, &*found};
    const auto path = fmt::format("/runs/{}/layers/{}", source.number, layer);
    if (!h5::has_object(source.file, path)) return std::nullopt;
    return source;
  }

  Error absent(const std::string& what, const std::string& remedy) const {
    return input_error(fmt::format("there is no {} in {}", what, info().path),
                       "it was not recorded", remedy);
  }
  const LayerSources& layer(int layer) const {
    const auto found = trace.layers.find(layer);
    if (found == trace.layers.end()) throw absent(fmt::format("layer {}", layer), layers_remedy());
    return found->second;
  }
  std::string layers_remedy() const {
    const auto& layers = info().layers;
    if (layers.empty()) return "capture the trace again with layers";
    return fmt::format("choose one of its {} layers, {} to {}", layers.size(), layers.front(),
                       layers.back());
  }
  void require_chunk(int chunk) const {
    if (chunk >= 0 && chunk < static_cast<int>(info().chunks.size())) return;
    throw absent(fmt::format("chunk {}", chunk),
                 fmt::format("choose one of its {} chunks", info().chunks.size()));
  }
  // Where the queries of these tokens begin in q.
  std::int64_t query_row(std::int32_t begin, std::int32_t end) const {
    if (info().query_offsets.empty() || begin == end) return begin;
    const int first = info().chunk_of_token(begin);
    for (int chunk = first; chunk <= info().chunk_of_token(end - 1); ++chunk)
      if (!info().has_queries(chunk)) throw lacks_queries(info(), chunk);
    return info().query_offsets[static_cast<std::size_t>(first)] + begin -
           info().chunks[static_cast<std::size_t>(first)].begin;
  }
  void require_range(int head, int heads, std::int32_t begin, std::int32_t end) const {
    if (head < 0 || head >= heads) {
      throw input_error(fmt::format("there is no head {} in {}", head, info().path),
                        fmt::format("it has {}", heads), "choose a smaller number");
    }
    if (begin < 0 || end < begin || end > info().num_tokens) {
      throw input_error(fmt::format("there are no tokens [{}, {}) in {}", begin, end, info().path),
                        fmt::format("its chunks hold {} tokens", info().num_tokens),
                        "choose a smaller range");
    }
  }
};

TraceReader::TraceReader(const fs::path& path) : impl_(std::make_unique<Impl>()) {
  const std::string name = path.string();
  const h5::Lock lock;  // also while a failed start closes what it opened
  auto opened = std::move(impl_);
  guarded(name, [&] {
    opened->file = open_trace(path);
    opened->trace = load_trace(opened->file.get(), name);
    opened->sidecar = open_sidecar(path, opened->trace);
  });
  impl_ = std::move(opened);
  add_window_warnings(impl_->trace.info);
  add_queries_warning(impl_->trace.info);
  std::error_code code;
  impl_->trace.info.bytes = fs::file_size(path, code);
}

TraceReader::~TraceReader() {
  const h5::Lock lock;
  impl_.reset();
}

TraceReader::TraceReader(TraceReader&&) noexcept = default;

TraceReader& TraceReader::operator=(TraceReader&& other) noexcept {
  const h5::Lock lock;
  impl_ = std::move(other.impl_);
  return *this;
}

const TraceInfo& TraceReader::info() const { return impl_->info(); }

std::optional<CaptureRequest> TraceReader::capture_request() const {
  return guarded(info().path, [&] { return load_request(impl_->file.get()); });
}

std::vector<std::int32_t> TraceReader::token_ids() const {
  return guarded(info().path, [&] { return load_token_ids(impl_->trace); });
}

std::vector<std::string> TraceReader::token_texts() const {
  return guarded(info().path, [&] { return load_token_texts(impl_->file.get(), impl_->trace); });
}

void TraceReader::read_rows(Stored what, int layer, int head, std::int32_t begin, std::int32_t end,
                            float* out) const {
  guarded(info().path, [&] {
    const LayerSources& sources = impl_->layer(layer);
    const bool queries = what == Stored::Q;
    impl_->require_range(head, queries ? info().model.num_q_heads : info().model.num_kv_heads,
                         begin, end);
    const h5::Dataset& dataset = heads_of(sources, what);
    if (!dataset) {
      constexpr const char* kNames[] = {"q", "k", "v"};
      throw impl_->absent(fmt::format("{} of layer {}", kNames[static_cast<int>(what)], layer),
                          "capture it again with --store qkv");
    }
    const std::int64_t row = queries ? impl_->query_row(begin, end) : begin;
    read_head_rows(dataset, head, row, row + (end - begin),
                   queries ? info().num_queries() : info().num_tokens, out);
  });
}

bool TraceReader::has_stored(Stored what, int layer) const {
  const auto found = impl_->trace.layers.find(layer);
  return found != impl_->trace.layers.end() && static_cast<bool>(heads_of(found->second, what));
}

bool TraceReader::has_lse(int layer) const {
  const auto found = impl_->trace.layers.find(layer);
  return found != impl_->trace.layers.end() && static_cast<bool>(found->second.lse);
}

void TraceReader::read_lse(int layer, int q_head, std::int32_t begin, std::int32_t end,
                           float* out) const {
  guarded(info().path, [&] {
    const h5::Dataset& lse = impl_->layer(layer).lse;
    impl_->require_range(q_head, info().model.num_q_heads, begin, end);
    if (!lse) {
      throw impl_->absent(fmt::format("log-sum-exp of layer {}", layer),
                          "capture it again with --store qkv,lse");
    }
    lse.require_stored(lse.dims()[0] * static_cast<std::uint64_t>(info().num_tokens) * 4);
    if (begin == end) return;
    lse.read(H5T_NATIVE_FLOAT, {static_cast<hsize_t>(q_head), static_cast<hsize_t>(begin)},
             {1, static_cast<hsize_t>(end - begin)}, out);
  });
}

std::optional<std::vector<float>> TraceReader::read_key_mass(int layer, int chunk) const {
  return guarded(info().path, [&]() -> std::optional<std::vector<float>> {
    const h5::Dataset& mass = impl_->layer(layer).key_mass;
    const auto& offsets = impl_->trace.mass_offsets;
    if (!mass || offsets.empty()) return std::nullopt;
    impl_->require_chunk(chunk);
    if (info().chunks[chunk].phase != Phase::Prefill) return std::nullopt;
    return mass.read_range<float>(static_cast<std::uint64_t>(offsets[chunk]),
                                  static_cast<std::uint64_t>(offsets[chunk + 1] - offsets[chunk]));
  });
}

std::optional<std::vector<float>> TraceReader::read_probe(int layer, int chunk) const {
  return guarded(info().path, [&]() -> std::optional<std::vector<float>> {
    const LayerSources& sources = impl_->layer(layer);
    impl_->require_chunk(chunk);
    if (!sources.probe_q || info().chunks[chunk].phase != Phase::Prefill) return std::nullopt;
    return load_probe_rows(impl_->trace, layer, chunk);
  });
}

template <typename T>
std::vector<T> TraceReader::read(Field field) const {
  const FieldInfo& described = info_of(field);
  KVLOUPE_CHECK(described.stands_alone() && described.element == element_of<T>());
  return guarded(info().path, [&]() -> std::vector<T> {
    const auto found = impl_->trace.values.find(field);
    if (found == impl_->trace.values.end()) return {};
    const std::vector<std::uint64_t> shape = shape_of(described, sizes_of(info()));
    std::vector<T> values =
        found->second.template read_box<T>(std::vector<std::uint64_t>(shape.size(), 0), shape);
    if (std::all_of(values.begin(), values.end(), [](T value) { return value != value; }))
      return {};
    return values;
  });
}

template std::vector<float> TraceReader::read(Field) const;
template std::vector<std::int32_t> TraceReader::read(Field) const;

TopTokens TraceReader::read_top_tokens() const {
  return guarded(info().path, [&] { return load_top(impl_->trace.top, info()); });
}

Drift TraceReader::read_drift() const {
  return guarded(info().path, [&] {
    if (!info().has_drift)
      throw impl_->absent("the drift from the dense model",
                          "capture with --closed-loop SPEC --drift");
    return load_drift(impl_->trace);
  });
}

bool TraceReader::has_run_layer(int run, int layer) const {
  return guarded(info().path, [&] { return impl_->find_run_layer(run, layer).has_value(); });
}

RunLayer TraceReader::read_run_layer(int run, int layer) const {
  return guarded(info().path, [&] {
    const auto source = impl_->find_run_layer(run, layer);
    if (!source) {
      throw impl_->absent(fmt::format("layer {} of run {}", layer, run),
                          "see its runs and layers by kvloupe info");
    }
    return load_run_layer(source->file, source->number, *source->run, layer, info());
  });
}

bool TraceReader::has_run_scores(int run, int layer) const {
  return guarded(info().path, [&] {
    const auto source = impl_->find_run_layer(run, layer);
    return source && has_scores(source->file, source->number, layer);
  });
}

std::vector<std::vector<float>> TraceReader::read_run_scores(int run, int layer, int chunk) const {
  impl_->require_chunk(chunk);
  return guarded(info().path, [&]() -> std::vector<std::vector<float>> {
    const auto source = impl_->find_run_layer(run, layer);
    if (!source) return {};
    return load_run_scores(source->file, source->number, *source->run, layer, info(), chunk);
  });
}

LayerRecord TraceReader::read_run(int run, int layer, std::optional<int> chunk) const {
  if (chunk) impl_->require_chunk(*chunk);
  return guarded(info().path, [&] {
    const RunLayer stored = read_run_layer(run, layer);
    const auto& runs = info().runs;
    const auto described = std::find_if(
        runs.begin(), runs.end(), [&](const RunInfo& candidate) { return candidate.id == run; });
    return decode_layer(stored, *described, info(), layer, chunk);
  });
}

}  // namespace kvloupe::trace
