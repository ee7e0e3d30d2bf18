// The layout of FORMAT.md, as calls.
#include "core/trace/trace_layout.h"

#include "core/base/version.h"
#include "core/trace/run_storage.h"
#include "core/trace/trace_names.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <numeric>

namespace kvloupe::trace {
namespace {

// One layer and head is what readers ask for; pieces of this size are read quickly and waste
// little.
constexpr hsize_t kStorageChunkBytes = 128 << 10;

void name_axes(const h5::Handle& dataset, const std::vector<std::string>& axes, const char* units,
               const char* long_name) {
  h5::write_attribute(dataset.get(), "axes", axes);
  h5::write_attribute(dataset.get(), "units", units);
  h5::write_attribute(dataset.get(), "long_name", long_name);
}

// Tokens of one storage chunk: about 128 KiB, all chunks of a head alike so that the last is full.
hsize_t tokens_per_storage_chunk(hsize_t tokens, hsize_t bytes_per_token) {
  const hsize_t most = std::max<hsize_t>(kStorageChunkBytes / bytes_per_token, 1);
  const hsize_t pieces = (tokens + most - 1) / most;
  return (tokens + pieces - 1) / pieces;
}

h5::Handle create_growing_vector(hid_t at, const std::string& path, hid_t type,
                                 hsize_t storage_chunk, const char* axis, const char* units,
                                 const char* long_name) {
  h5::Handle dataset = create_dataset(at, path, type, {0}, {storage_chunk}, true);
  name_axes(dataset, {axis}, units, long_name);
  return dataset;
}

void describe_plot(hid_t group, const char* signal, const std::vector<std::string>& axes,
                   const std::string& title) {
  h5::write_attribute(group, "NX_class", "NXdata");
  h5::write_attribute(group, "signal", signal);
  h5::write_attribute(group, "axes", axes);
  h5::write_attribute(group, "title", title);
}

struct SpanRecord {
  const char* name;
  std::int32_t begin;
  std::int32_t end;
};

void write_spans(hid_t group, const std::vector<TokenSpan>& spans) {
  const h5::Handle type = h5::checked(H5Tcreate(H5T_COMPOUND, sizeof(SpanRecord)), "create spans");
  H5Tinsert(type.get(), "name", HOFFSET(SpanRecord, name), h5::string_type());
  H5Tinsert(type.get(), "begin", HOFFSET(SpanRecord, begin), H5T_NATIVE_INT32);
  H5Tinsert(type.get(), "end", HOFFSET(SpanRecord, end), H5T_NATIVE_INT32);
  const hsize_t count = spans.size();
  const h5::Handle space = h5::checked(H5Screate_simple(1, &count, nullptr), "create spans");
  const h5::Handle dataset = h5::checked(
      H5Dcreate2(group, "spans", type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      "create spans");
  name_axes(dataset, {"span"}, "token", "half-open ranges of tokens with a meaning");
  if (spans.empty()) return;
  std::vector<SpanRecord> records;
  for (const auto& span : spans) records.push_back({span.name.c_str(), span.begin, span.end});
  h5::checked_status(
      H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, h5::transfer(), records.data()),
      "write spans");
}

h5::Handle create_heads(hid_t group, const char* name, const TraceHeader& header, int heads,
                        const char* head_axis, const char* long_name) {
  const auto tokens = static_cast<hsize_t>(header.max_tokens);
  const auto dim = static_cast<hsize_t>(header.model.head_dim);
  const hsize_t piece = tokens_per_storage_chunk(tokens, dim * element_bytes(header.dtype));
  h5::Handle dataset =
      create_dataset(group, name, stored_type(header.dtype),
                     {static_cast<hsize_t>(heads), tokens, dim}, {1, piece, dim}, false);
  name_axes(dataset, {head_axis, "token", "channel"}, "1", long_name);
  return dataset;
}

// Grows with the prefill chunks: decoded tokens have no probe and take no room.
h5::Handle create_probe_queries(hid_t group, const TraceHeader& header) {
  const auto heads = static_cast<hsize_t>(header.model.num_q_heads);
  const auto tokens = static_cast<hsize_t>(header.probe_len);
  const auto dim = static_cast<hsize_t>(header.model.head_dim);
  h5::Handle dataset = create_dataset(group, "probe_q", stored_type(header.dtype),
                                      {0, heads, tokens, dim}, {1, 1, tokens, dim}, true);
  name_axes(dataset, {"chunk", "q_head", "probe_token", "channel"}, "1",
            "queries of the probe after each prefill chunk");
  return dataset;
}

}  // namespace

h5::Handle create_vector(hid_t at, const std::string& path, hid_t type, hsize_t size,
                         const char* axis, const char* units, const char* long_name) {
  h5::Handle dataset =
      create_dataset(at, path, type, {size}, {std::clamp<hsize_t>(size, 1, 65536)}, false);
  name_axes(dataset, {axis}, units, long_name);
  return dataset;
}

hid_t stored_type(DType dtype) { return dtype == DType::F16 ? h5::half_type() : H5T_IEEE_F32LE; }

std::uint64_t element_bytes(DType dtype) { return dtype == DType::F16 ? 2 : 4; }

void write_root(hid_t file, const TraceHeader& header) {
  h5::write_attribute(file, "format", std::string(kTraceFormat));
  h5::write_attribute(file, "schema_version", std::string(kSchemaVersion));
  h5::write_attribute(file, "producer", "kvloupe " + version());
  h5::write_attribute(file, "created",
                      fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))));
  h5::write_attribute(file, "mode", std::string(to_text(header.mode)));
  h5::write_attribute(file, "dtype", std::string(to_text(header.dtype)));
  h5::write_attribute(file, "chunks_done", 0);
  h5::write_attribute(file, "complete", 0);
  h5::write_attribute(file, "NX_class", "NXroot");
  h5::write_attribute(file, "default", "layers");
}

void write_model(hid_t file, const ModelInfo& model) {
  const h5::Handle group = h5::create_group(file, "/model");
  const hid_t id = group.get();
  h5::write_attribute(id, "name", model.name);
  h5::write_attribute(id, "architecture", model.architecture);
  h5::write_attribute(id, "num_layers", model.num_layers);
  h5::write_attribute(id, "num_q_heads", model.num_q_heads);
  h5::write_attribute(id, "num_kv_heads", model.num_kv_heads);
  h5::write_attribute(id, "head_dim", model.head_dim);
  h5::write_attribute(id, "hidden_size", model.hidden_size);
  h5::write_attribute(id, "softmax_scale", model.softmax_scale);
  h5::write_attribute(id, "rope_theta", model.rope_theta);
  h5::write_attribute(id, "rope_pairing", std::string(to_text(model.rope_pairing)));
  h5::write_attribute(id, "rope_scaling", model.rope_scaling);
  h5::write_attribute(id, "file_hash", model.file_hash);
  if (model.compute) h5::write_attribute(id, "compute", std::string(to_text(*model.compute)));
  std::vector<std::string> types;
  for (const auto type : model.layer_types) types.emplace_back(to_text(type));
  h5::write_attribute(id, "layer_types", types);
}

void write_probe_text(hid_t file, const TraceHeader& header) {
  if (header.probe_len == 0) return;
  const h5::Handle group = h5::create_group(file, "/probe");
  h5::write_attribute(group.get(), "text", header.probe_text);
  h5::write_attribute(group.get(), "num_tokens", header.probe_len);
  if (header.probe_ids.empty()) return;
  const hsize_t count = header.probe_ids.size();
  const h5::Handle ids = create_vector(group.get(), "ids", H5T_STD_I32LE, count, "probe_token", "1",
                                       "token ids of the probe");
  h5::write_box(ids.get(), H5T_NATIVE_INT32, {0}, {count}, header.probe_ids.data());
}

TokenDatasets create_tokens(hid_t file, const TraceHeader& header) {
  const auto tokens = static_cast<hsize_t>(header.max_tokens);
  const auto chunks = static_cast<hsize_t>(header.max_chunks);
  TokenDatasets sets;
  const h5::Handle token_group = h5::create_group(file, "/tokens");
  const hid_t at = token_group.get();
  sets.ids = create_vector(at, "ids", H5T_STD_I32LE, tokens, "token", "1", "token id");
  sets.text_offsets = create_vector(at, "text_offsets", H5T_STD_U64LE, tokens + 1, "token", "byte",
                                    "where each token's bytes begin in text");
  sets.text = create_growing_vector(at, "text", H5T_STD_U8LE, std::min<hsize_t>(16384, 8 * tokens),
                                    "byte", "1", "raw bytes of all tokens");
  if (header.store_nll) {
    sets.nll = create_vector(at, "nll", H5T_IEEE_F32LE, tokens, "token", "nat",
                             "-log P of each token given those before it");
  }
  create_growing_vector(at, "generated", H5T_STD_I32LE, 256, "step", "1", "sampled token ids");
  write_spans(at, header.spans);
  const std::uint64_t zero = 0;
  h5::write_box(sets.text_offsets.get(), H5T_NATIVE_UINT64, {0}, {1}, &zero);

  const h5::Handle chunk_group = h5::create_group(file, "/chunks");
  const hid_t in = chunk_group.get();
  sets.begin = create_vector(in, "begin", H5T_STD_I32LE, chunks, "chunk", "token",
                             "first token of the chunk");
  sets.length =
      create_vector(in, "length", H5T_STD_I32LE, chunks, "chunk", "token", "tokens in the chunk");
  sets.phase =
      create_vector(in, "phase", H5T_STD_U8LE, chunks, "chunk", "1", "0 prefill, 1 decode");
  if (header.store_mass) {
    sets.mass_offsets = create_vector(in, "mass_offsets", H5T_STD_I64LE, chunks + 1, "chunk", "1",
                                      "where each chunk begins in key_mass");
    h5::write_box(sets.mass_offsets.get(), H5T_NATIVE_UINT64, {0}, {1}, &zero);
  }
  return sets;
}

void write_softmax(hid_t layer, const SoftmaxForm& form) {
  if (form.window > 0) h5::write_attribute(layer, "window", form.window);
  if (form.softcap > 0) h5::write_attribute(layer, "softcap", form.softcap);
  if (!form.sink_logits.empty()) h5::write_attribute(layer, "sink_logit", form.sink_logits);
}

std::vector<LayerDatasets> create_layers(hid_t file, const TraceHeader& header) {
  const h5::Handle all = h5::create_group(file, "/layers");
  h5::write_attribute(all.get(), "NX_class", "NXentry");
  if (!header.layers.empty()) {
    h5::write_attribute(all.get(), "default", std::to_string(header.layers.front()));
  }
  const auto& model = header.model;
  const auto tokens = static_cast<hsize_t>(header.max_tokens);
  const hsize_t mass_piece =
      std::min<hsize_t>(kStorageChunkBytes / 4,
                        model.num_kv_heads * tokens * static_cast<hsize_t>(header.max_chunks));
  std::vector<LayerDatasets> layers;
  for (const int layer : header.layers) {
    LayerDatasets sets;
    sets.layer = layer;
    const h5::Handle group = h5::create_group(all.get(), std::to_string(layer));
    const hid_t at = group.get();
    write_softmax(at, model.softmax_of(layer));
    if (header.store_qkv) {
      sets.q = create_heads(at, "q", header, model.num_q_heads, "q_head", "queries");
      sets.k = create_heads(at, "k", header, model.num_kv_heads, "kv_head", "keys");
      sets.v = create_heads(at, "v", header, model.num_kv_heads, "kv_head", "values");
    }
    if (header.store_mass) {
      sets.key_mass = create_growing_vector(at, "key_mass", H5T_IEEE_F32LE, mass_piece, "cell",
                                            "probability", "attention mass of each key");
      if (!header.store_lse) {
        describe_plot(at, "key_mass", {"."}, fmt::format("Layer {}: key mass", layer));
      }
    }
    if (header.store_lse) {
      sets.lse = create_dataset(at, "lse", H5T_IEEE_F32LE,
                                {static_cast<hsize_t>(model.num_q_heads), tokens},
                                {1, tokens_per_storage_chunk(tokens, 4)}, false);
      name_axes(sets.lse, {"q_head", "token"}, "nat", "log-sum-exp of the scaled logits");
      describe_plot(at, "lse", {".", "."}, fmt::format("Layer {}: log-sum-exp by head", layer));
    }
    if (header.probe_len > 0) sets.probe_q = create_probe_queries(at, header);
    layers.push_back(std::move(sets));
  }
  return layers;
}

}  // namespace kvloupe::trace
