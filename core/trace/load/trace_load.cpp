// Root, model, chunks, tokens and layers of a trace, checked before anything is believed.
#include "core/trace/load/trace_load.h"

#include "core/base/units.h"
#include "core/trace/fields/attribute_io.h"
#include "core/trace/fields/field_storage.h"
#include "core/trace/fields/trace_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

namespace kvloupe::trace {
namespace {

// What is kept of a token in memory: its id, text and label.
constexpr std::uint64_t kBytesPerToken = 128;

ModelInfo load_model(hid_t file, std::vector<std::string>& warnings) {
  const h5::Handle group = h5::open_group(file, "/model");
  ModelInfo model;
  read_attributes(group.get(), " of /model", model, warnings);
  if (model.num_q_heads % model.num_kv_heads != 0) {
    throw h5::Defect(fmt::format("{} query heads cannot be shared by {} KV heads",
                                 model.num_q_heads, model.num_kv_heads));
  }
  if (model.rope_scaling.empty()) model.rope_scaling = "none";
  if (model.softmax_scale == 0) model.softmax_scale = 1 / std::sqrt(double(model.head_dim));
  const auto num_layers = static_cast<std::size_t>(model.num_layers);
  if (!model.layer_types.empty() && model.layer_types.size() != num_layers) {
    warnings.push_back(fmt::format("layer_types of /model names {} layers of {}; all count as full",
                                   model.layer_types.size(), num_layers));
    model.layer_types.clear();
  }
  model.layer_types.resize(num_layers, LayerType::Full);
  return model;
}

// The chunks done; they must tile [0, T).
std::vector<ChunkInfo> load_chunks(hid_t file, std::uint64_t count) {
  const auto open = [&](const char* path) {
    return h5::Dataset::open(file, path, h5::ValueClass::Integer, 1);
  };
  const auto begins = open("/chunks/begin").read_range<std::int64_t>(0, count);
  const auto lengths = open("/chunks/length").read_range<std::int64_t>(0, count);
  const auto phases = open("/chunks/phase").read_range<std::int64_t>(0, count);
  std::vector<ChunkInfo> chunks;
  std::int64_t expected = 0;
  for (std::size_t c = 0; c < count; ++c) {
    const std::int64_t length = lengths[c];
    if (begins[c] != expected) {
      throw h5::Defect(fmt::format("chunk {} begins at {} where the one before ends at {}", c,
                                   begins[c], expected));
    }
    if (length < 1 || length > std::numeric_limits<std::int32_t>::max() - 1 - expected) {
      throw h5::Defect(fmt::format("chunk {} has length {}", c, length));
    }
    if (phases[c] != 0 && phases[c] != 1) {
      throw h5::Defect(fmt::format("chunk {} has the unknown phase {}", c, phases[c]));
    }
    chunks.push_back({static_cast<std::int32_t>(expected), static_cast<std::int32_t>(length),
                      static_cast<Phase>(phases[c])});
    expected += length;
  }
  return chunks;
}

// A chunk has a row of q for each of its tokens, or none.
std::vector<std::int64_t> load_query_offsets(hid_t file, const std::vector<ChunkInfo>& chunks) {
  constexpr const char* kPath = "/chunks/query_offsets";
  if (!h5::has_object(file, kPath)) return {};
  auto offsets = h5::Dataset::open(file, kPath, h5::ValueClass::Integer, 1)
                     .read_range<std::int64_t>(0, chunks.size() + 1);
  if (offsets.front() != 0)
    throw h5::Defect(fmt::format("{} begins at {}, not at 0", kPath, offsets.front()));
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    if (offsets[c + 1] == offsets[c] || offsets[c + 1] == offsets[c] + chunks[c].length) continue;
    throw h5::Defect(fmt::format("{} goes from {} to {} in chunk {}, which has {} tokens", kPath,
                                 offsets[c], offsets[c + 1], c, chunks[c].length));
  }
  return offsets;
}

bool is_type(hid_t type, std::initializer_list<hid_t> accepted) {
  for (const hid_t candidate : accepted) {
    if (H5Tequal(type, candidate) > 0) return true;
  }
  return false;
}

std::optional<DType> dtype_of(hid_t dataset) {
  const h5::Handle type = h5::checked(H5Dget_type(dataset), "read a type");
  const h5::Handle big_half = h5::checked(H5Tcopy(h5::half_type()), "describe a type");
  H5Tset_order(big_half.get(), H5T_ORDER_BE);
  if (is_type(type.get(), {h5::half_type(), big_half.get()})) return DType::F16;
  if (is_type(type.get(), {H5T_IEEE_F32LE, H5T_IEEE_F32BE})) return DType::F32;
  return std::nullopt;
}

h5::Dataset open_heads(hid_t file, Field field, int layer, const TraceInfo& info) {
  auto dataset = open_if_stored(file, field, sizes_of(info), layer);
  // Whoever reads a head makes room for all of its rows.
  if (dataset) {
    LoadBudget::require(std::uint64_t{sizeof(float)} * info.num_tokens * info.model.head_dim,
                        dataset.path().c_str());
  }
  return dataset;
}

// The layer's window, softcap and sinks. A layer where one of them is wrong cannot be computed.
SoftmaxForm load_softmax(hid_t file, int layer, const ModelInfo& model) {
  const h5::Handle group = h5::open_group(file, fmt::format("/layers/{}", layer));
  SoftmaxForm form(model.softmax_scale);
  std::vector<std::string> none;  // of these attributes none is passed over
  try {
    read_attributes(group.get(), fmt::format(" of /layers/{}", layer), form, none);
  } catch (const h5::Defect& defect) {
    throw h5::Defect(fmt::format("{}; the layer is left out", defect.what()));
  }
  const auto heads = static_cast<std::size_t>(model.num_q_heads);
  if (!form.sink_logits.empty() && form.sink_logits.size() != heads) {
    throw h5::Defect(fmt::format(
        "sink_logit has {} values for {} query heads of /layers/{}; the layer is left out",
        form.sink_logits.size(), heads, layer));
  }
  return form;
}

void load_layers(hid_t file, LoadedTrace& trace) {
  auto& info = trace.info;
  bool is_there = false;
  tolerate(info.warnings, [&] {
    is_there = h5::has_object(file, "/layers");
    if (!is_there) throw h5::Defect("the group /layers is missing");
  });
  if (!is_there) return;
  const h5::Handle group = h5::open_group(file, "/layers");
  for (const int layer : h5::numbered_members(group.get())) {
    if (layer >= info.model.num_layers) {
      info.warnings.push_back(
          fmt::format("/layers/{} is no layer of a model of {}", layer, info.model.num_layers));
      continue;
    }
    LayerSources sources;
    bool sound = true;
    const auto load = [&](const auto& part) {
      try {
        part();
      } catch (const h5::Defect& defect) {
        sound = false;
        info.warnings.emplace_back(defect.what());
      }
    };
    const auto open = [&](h5::Dataset& target, const auto& opener) {
      load([&] { target = opener(); });
    };
    const auto& model = info.model;
    open(sources.q, [&] { return open_heads(file, Field::Q, layer, info); });
    open(sources.k, [&] { return open_heads(file, Field::K, layer, info); });
    open(sources.v, [&] { return open_heads(file, Field::V, layer, info); });
    SoftmaxForm softmax;
    load([&] { softmax = load_softmax(file, layer, model); });
    // A layer with a damaged q, k, v or softmax cannot be shown; damaged reduced maps are made anew.
    if (!sound) continue;
    if (!softmax.is_plain()) info.model.shaped_softmax.emplace(layer, std::move(softmax));
    open(sources.lse, [&] { return open_if_stored(file, Field::Lse, sizes_of(info), layer); });
    open(sources.key_mass,
         [&] { return open_if_stored(file, Field::KeyMass, sizes_of(info), layer); });
    info.layers.push_back(layer);
    trace.layers.emplace(layer, std::move(sources));
  }
}

void load_dtype(LoadedTrace& trace) {
  std::optional<DType> found;
  bool mixed = false;
  for (const auto& [layer, sources] : trace.layers) {
    for (const auto* dataset : {&sources.q, &sources.k, &sources.v}) {
      if (!*dataset) continue;
      const auto type = dtype_of(dataset->id());
      mixed = mixed || (found && type != found);
      if (!found) found = type;
    }
  }
  if (mixed) trace.info.warnings.emplace_back("q, k and v are not all of one type");
  trace.info.dtype = found.value_or(trace.info.dtype);
}

void load_mass_offsets(hid_t file, LoadedTrace& trace) {
  const auto& info = trace.info;
  if (!h5::has_object(file, "/chunks/mass_offsets")) {
    const auto mass = std::find_if(trace.layers.begin(), trace.layers.end(), [](const auto& layer) {
      return static_cast<bool>(layer.second.key_mass);
    });
    if (mass == trace.layers.end()) return;
    throw h5::Defect(fmt::format("key_mass of layer {} cannot be read without /chunks/mass_offsets",
                                 mass->first));
  }
  auto offsets = h5::Dataset::open(file, "/chunks/mass_offsets", h5::ValueClass::Integer, 1)
                     .read_range<std::int64_t>(0, info.chunks.size() + 1);
  std::int64_t expected = 0;
  for (std::size_t c = 0; c <= info.chunks.size(); ++c) {
    if (offsets[c] != expected) {
      throw h5::Defect(fmt::format("/chunks/mass_offsets has {} for chunk {} where {} is needed",
                                   offsets[c], c, expected));
    }
    if (c < info.chunks.size() && info.chunks[c].phase == Phase::Prefill) {
      expected += std::int64_t{info.model.num_kv_heads} * info.chunks[c].end();
    }
  }
  trace.mass_offsets = std::move(offsets);
}

// Returns how many chunks are done.
std::uint64_t load_root(hid_t file, TraceInfo& info) {
  RootAttributes root;
  read_attributes(file, "", root, info.warnings);
  info.producer = root.producer;
  info.created = root.created;
  info.mode = root.mode;
  info.dtype = root.dtype;
  info.complete = root.complete;
  return static_cast<std::uint64_t>(root.chunks_done);
}

}  // namespace

bool has_stored_type(const h5::Dataset& dataset) { return dtype_of(dataset.id()).has_value(); }

Error unreadable_trace(const std::string& path, const std::string& why) {
  return input_error("cannot read " + path, why,
                     "check it by kvloupe validate, or capture the trace again");
}

std::string require_format(hid_t file, const std::string& path, std::string_view format,
                           const char* noun) {
  const auto found = h5::string_attribute(file, "format");
  if (found == kResultsFormat)
    throw input_error(fmt::format("{} is not {}", path, noun), "it holds results of an evaluation",
                      fmt::format("see them by kvloupe {}", path));
  if (!found || *found != format) {
    throw input_error(fmt::format("{} is not {}", path, noun),
                      fmt::format("it does not carry the mark format=\"{}\"", format),
                      "make one by kvloupe capture");
  }
  const std::string version = h5::string_attribute(file, "schema_version").value_or("");
  const auto major = parse_int(std::string_view(version).substr(0, version.find('.')));
  if (!major) throw h5::Defect(fmt::format("its schema_version \"{}\" is no version", version));
  if (*major > kSchemaMajor) {
    throw input_error(
        fmt::format("cannot read {}", path),
        fmt::format("its schema version {} is newer than {}.x, which this program reads", version,
                    kSchemaMajor),
        "use a newer kvloupe");
  }
  if (*major < 1) throw h5::Defect(fmt::format("its schema_version \"{}\" is no version", version));
  return version;
}

void load_values(hid_t file, LoadedTrace& trace) {
  for (const FieldInfo& field : all_fields()) {
    if (!field.stands_alone()) continue;
    tolerate(trace.info.warnings, [&] {
      h5::Dataset dataset = open_if_stored(file, field.id, sizes_of(trace.info));
      if (dataset) trace.values.emplace(field.id, std::move(dataset));
    });
  }
}

LoadedTrace load_trace(hid_t file, const std::string& path) {
  LoadedTrace trace;
  auto& info = trace.info;
  info.path = path;
  info.schema_version = require_format(file, path, kTraceFormat, "a KVLoupe trace");
  const std::uint64_t chunks_done = load_root(file, info);
  info.model = load_model(file, info.warnings);
  info.chunks = load_chunks(file, chunks_done);
  info.num_tokens = info.chunks.empty() ? 0 : info.chunks.back().end();
  info.query_offsets = load_query_offsets(file, info.chunks);
  trace.ids = h5::Dataset::open(file, "/tokens/ids", h5::ValueClass::Integer, 1);
  const auto tokens = static_cast<std::uint64_t>(info.num_tokens);
  if (trace.ids.dims().front() < tokens) {
    throw h5::Defect(
        fmt::format("/tokens/ids has {} entries for {} tokens", trace.ids.dims().front(), tokens));
  }
  trace.ids.require_stored(tokens);
  LoadBudget::require(tokens * kBytesPerToken, "/tokens/ids");
  tolerate(info.warnings, [&] { trace.has_texts = check_token_texts(file, info.num_tokens); });
  tolerate(info.warnings, [&] { info.spans = load_spans(file); });
  // A capture killed at its very end leaves the list's length without its values: no damage.
  std::vector<std::string> passed_over;
  tolerate(info.complete ? info.warnings : passed_over, [&] {
    if (!h5::has_object(file, "/tokens/generated")) return;
    const auto dataset = h5::Dataset::open(file, "/tokens/generated", h5::ValueClass::Integer, 1);
    info.generated = dataset.read_range<std::int32_t>(0, dataset.dims().front());
  });
  load_layers(file, trace);
  load_dtype(trace);
  tolerate(info.warnings, [&] { load_mass_offsets(file, trace); });
  load_values(file, trace);
  tolerate(info.warnings, [&] { load_probe(file, trace); });
  load_next_tokens(file, trace);
  tolerate(info.warnings, [&] { info.speed = load_speed(file); });
  tolerate(info.warnings, [&] { load_runs(file, info.model, 0, false, info.runs, info.warnings); });
  return trace;
}

}  // namespace kvloupe::trace
