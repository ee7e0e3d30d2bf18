// Root, model, chunks, tokens and layers of a trace, checked before anything is believed.
#include "core/trace/load/trace_load.h"

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/trace/fields/field_storage.h"
#include "core/trace/fields/trace_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

namespace kvloupe::trace {
namespace {

// Far above any model; they keep products of these numbers inside 64 bits.
constexpr std::int64_t kMaxLayers = 4096;
constexpr std::int64_t kMaxHeads = 65536;
constexpr std::int64_t kMaxHeadDim = 65536;
constexpr std::int64_t kMaxHiddenSize = 1 << 30;
// What is kept of a token in memory: its id, text and label.
constexpr std::uint64_t kBytesPerToken = 128;

int required_count(hid_t group, const char* name, std::int64_t most) {
  const auto value = h5::int_attribute(group, name);
  if (!value) throw h5::Defect(fmt::format("the attribute {} of /model is missing", name));
  if (*value < 1 || *value > most) {
    throw h5::Defect(fmt::format("{} of /model is {}, outside 1 to {}", name, *value, most));
  }
  return static_cast<int>(*value);
}

std::string optional_text(hid_t object, const char* name, std::vector<std::string>& warnings) {
  std::string text;
  tolerate(warnings, [&] {
    const auto found = h5::string_attribute(object, name);
    if (!found) throw h5::Defect(fmt::format("the attribute {} is missing", name));
    text = *found;
  });
  return text;
}

template <typename Enum>
Enum optional_word(hid_t object, const char* name, Enum otherwise,
                   std::vector<std::string>& warnings) {
  const std::string text = optional_text(object, name, warnings);
  if (const auto value = from_text<Enum>(text)) return *value;
  if (!text.empty()) {
    warnings.push_back(fmt::format("{} is \"{}\", an unknown word; {} is assumed", name, text,
                                   to_text(otherwise)));
  }
  return otherwise;
}

std::vector<LayerType> load_layer_types(hid_t group, int num_layers,
                                        std::vector<std::string>& warnings) {
  std::vector<LayerType> types(num_layers, LayerType::Full);
  tolerate(warnings, [&] {
    const auto words = h5::strings_attribute(group, "layer_types");
    if (!words) return;
    if (words->size() != types.size()) {
      throw h5::Defect(
          fmt::format("layer_types of /model names {} layers of {}", words->size(), num_layers));
    }
    for (std::size_t layer = 0; layer < types.size(); ++layer) {
      const auto type = from_text<LayerType>((*words)[layer]);
      if (!type)
        throw h5::Defect(
            fmt::format("layer_types of /model has an unknown word for layer {}", layer));
      types[layer] = *type;
    }
  });
  return types;
}

ModelInfo load_model(hid_t file, std::vector<std::string>& warnings) {
  const h5::Handle group = h5::open_group(file, "/model");
  const hid_t id = group.get();
  ModelInfo model;
  model.num_layers = required_count(id, "num_layers", kMaxLayers);
  model.num_q_heads = required_count(id, "num_q_heads", kMaxHeads);
  model.num_kv_heads = required_count(id, "num_kv_heads", kMaxHeads);
  model.head_dim = required_count(id, "head_dim", kMaxHeadDim);
  if (model.num_q_heads % model.num_kv_heads != 0) {
    throw h5::Defect(fmt::format("{} query heads cannot be shared by {} KV heads",
                                 model.num_q_heads, model.num_kv_heads));
  }
  tolerate(warnings,
           [&] { model.hidden_size = required_count(id, "hidden_size", kMaxHiddenSize); });
  model.name = optional_text(id, "name", warnings);
  model.architecture = optional_text(id, "architecture", warnings);
  model.file_hash = optional_text(id, "file_hash", warnings);
  model.rope_scaling = optional_text(id, "rope_scaling", warnings);
  if (model.rope_scaling.empty()) model.rope_scaling = "none";
  model.rope_pairing = optional_word(id, "rope_pairing", RopePairing::HalfSplit, warnings);
  tolerate(warnings, [&] {
    const auto word = h5::string_attribute(id, "compute");
    if (!word) return;
    model.compute = from_text<ComputeType>(*word);
    if (!model.compute)
      throw h5::Defect(fmt::format("compute of /model is \"{}\", an unknown word", *word));
  });
  model.softmax_scale = 1 / std::sqrt(static_cast<double>(model.head_dim));
  tolerate(warnings, [&] {
    const auto scale = h5::double_attribute(id, "softmax_scale");
    if (!scale || !std::isfinite(*scale) || *scale <= 0) {
      throw h5::Defect(
          "softmax_scale of /model is no positive number; 1/sqrt(head_dim) is assumed");
    }
    model.softmax_scale = *scale;
  });
  tolerate(warnings, [&] {
    const auto theta = h5::double_attribute(id, "rope_theta");
    if (!theta || !std::isfinite(*theta)) throw h5::Defect("rope_theta of /model is no number");
    model.rope_theta = *theta;
  });
  model.layer_types = load_layer_types(id, model.num_layers, warnings);
  return model;
}

// The chunks done; they must tile [0, T).
std::vector<ChunkInfo> load_chunks(hid_t file) {
  const auto done = h5::int_attribute(file, "chunks_done");
  if (!done) throw h5::Defect("the attribute chunks_done is missing");
  if (*done < 0 || *done > std::numeric_limits<std::int32_t>::max()) {
    throw h5::Defect(fmt::format("chunks_done is {}", *done));
  }
  const auto count = static_cast<std::uint64_t>(*done);
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
  const hid_t id = group.get();
  const auto defect = [&](const std::string& what) {
    return h5::Defect(fmt::format("{} of /layers/{}; the layer is left out", what, layer));
  };
  SoftmaxForm form(model.softmax_scale);
  if (const auto window = h5::int_attribute(id, "window")) {
    if (*window < 1) throw defect(fmt::format("{} is no window", *window));
    form.window = *window;
  }
  if (const auto softcap = h5::double_attribute(id, "softcap")) {
    if (!std::isfinite(*softcap) || *softcap <= 0) {
      throw defect(fmt::format("{} is no softcap", *softcap));
    }
    form.softcap = *softcap;
  }
  if (auto sinks = h5::floats_attribute(id, "sink_logit")) {
    if (sinks->size() != static_cast<std::size_t>(model.num_q_heads)) {
      throw defect(fmt::format("sink_logit has {} values for {} query heads", sinks->size(),
                               model.num_q_heads));
    }
    if (!std::all_of(sinks->begin(), sinks->end(), [](float z) { return std::isfinite(z); })) {
      throw defect("sink_logit holds a value that is not finite");
    }
    form.sink_logits = std::move(*sinks);
  }
  return form;
}

void load_layers(hid_t file, LoadedTrace& trace) {
  auto& info = trace.info;
  if (!h5::has_object(file, "/layers")) {
    info.warnings.emplace_back("the group /layers is missing");
    return;
  }
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

void load_dtype(hid_t file, LoadedTrace& trace) {
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
  if (!found) {
    tolerate(trace.info.warnings, [&] {
      if (const auto word = h5::string_attribute(file, "dtype")) found = from_text<DType>(*word);
    });
  }
  trace.info.dtype = found.value_or(DType::F16);
}

void load_mass_offsets(hid_t file, LoadedTrace& trace) {
  if (!h5::has_object(file, "/chunks/mass_offsets")) return;
  const auto& info = trace.info;
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

void load_root(hid_t file, TraceInfo& info) {
  info.producer = optional_text(file, "producer", info.warnings);
  info.created = optional_text(file, "created", info.warnings);
  info.mode = optional_word(file, "mode", LoopMode::OpenLoop, info.warnings);
  tolerate(info.warnings, [&] {
    const auto complete = h5::int_attribute(file, "complete");
    if (!complete) throw h5::Defect("the attribute complete is missing");
    if (*complete != 0 && *complete != 1) throw h5::Defect("complete is neither 0 nor 1");
    info.complete = *complete == 1;
  });
}

}  // namespace

bool has_stored_type(const h5::Dataset& dataset) { return dtype_of(dataset.id()).has_value(); }

std::string require_format(hid_t file, const std::string& path, std::string_view format,
                           const char* noun) {
  const auto found = h5::string_attribute(file, "format");
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

LoadedTrace load_trace(hid_t file, const std::string& path) {
  LoadedTrace trace;
  auto& info = trace.info;
  info.path = path;
  info.schema_version = require_format(file, path, kTraceFormat, "a KVLoupe trace");
  load_root(file, info);
  info.model = load_model(file, info.warnings);
  info.chunks = load_chunks(file);
  info.num_tokens = info.chunks.empty() ? 0 : info.chunks.back().end();
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
  load_dtype(file, trace);
  tolerate(info.warnings, [&] { load_mass_offsets(file, trace); });
  load_probe(file, trace);
  load_next_tokens(file, trace);
  tolerate(info.warnings, [&] { info.speed = load_speed(file); });
  load_runs(file, info.model, 0, false, info.runs, info.warnings);
  return trace;
}

}  // namespace kvloupe::trace
