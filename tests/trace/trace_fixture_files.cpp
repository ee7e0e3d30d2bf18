// The reference trace to a file, and every part of a file read.
#include "core/base/error.h"
#include "tests/trace/trace_fixture.h"

#include <algorithm>
#include <cstring>

namespace kvloupe::trace::testing {
namespace {

namespace fs = std::filesystem;

// Half bits of a value that is exact in half precision.
std::uint16_t half_bits(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7fffffffu) == 0) return static_cast<std::uint16_t>(bits >> 16);
  const std::uint32_t exponent = ((bits >> 23) & 0xffu) - 112;
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | exponent << 10 |
                                    (bits >> 13 & 0x3ffu));
}

std::vector<std::uint8_t> stored_bytes(const std::vector<float>& values, DType dtype) {
  std::vector<std::uint8_t> bytes;
  for (const float value : values) {
    const std::uint16_t half = half_bits(value);
    const auto* raw = dtype == DType::F16 ? reinterpret_cast<const std::uint8_t*>(&half)
                                          : reinterpret_cast<const std::uint8_t*>(&value);
    bytes.insert(bytes.end(), raw, raw + (dtype == DType::F16 ? 2 : 4));
  }
  return bytes;
}

// The rows of one chunk, [heads, length, dim], in the stored type.
std::vector<std::uint8_t> rows_of(const std::vector<float>& all, int heads, int dim,
                                  std::int32_t num_tokens, const ChunkInfo& chunk, DType dtype) {
  std::vector<float> rows;
  for (int head = 0; head < heads; ++head) {
    const auto row = all.begin() + std::ptrdiff_t{head} * num_tokens * dim;
    rows.insert(rows.end(), row + std::ptrdiff_t{chunk.begin} * dim,
                row + std::ptrdiff_t{chunk.end()} * dim);
  }
  return stored_bytes(rows, dtype);
}

}  // namespace

void write_layer_of(TraceWriter& writer, const ReferenceTrace& reference, int chunk_index,
                    int index) {
  const auto& model = reference.header.model;
  const ChunkInfo& chunk = reference.chunks[chunk_index];
  const auto& layer = reference.layers[index];
  const auto pack = [&](const std::vector<float>& all, int heads) {
    return rows_of(all, heads, model.head_dim, reference.num_tokens(), chunk,
                   reference.header.dtype);
  };
  const auto q = pack(layer.q, model.num_q_heads);
  const auto k = pack(layer.k, model.num_kv_heads);
  const auto v = pack(layer.v, model.num_kv_heads);
  std::vector<float> lse;
  for (int head = 0; head < model.num_q_heads; ++head) {
    const auto row = layer.lse.begin() + std::ptrdiff_t{head} * reference.num_tokens();
    lse.insert(lse.end(), row + chunk.begin, row + chunk.end());
  }
  LayerChunk data;
  data.layer = reference.header.layers[index];
  data.q = q.data();
  data.k = k.data();
  data.v = v.data();
  data.lse = lse.data();
  data.key_mass = layer.key_mass[chunk_index].data();
  writer.write_layer(chunk, data);
}

void write_probe_of(TraceWriter& writer, const ReferenceTrace& reference, int chunk, int index) {
  const auto q = stored_bytes(reference.layers[index].probe_q[chunk], reference.header.dtype);
  writer.write_probe(reference.chunks[chunk], {reference.header.layers[index], q.data()});
}

void write_chunks(TraceWriter& writer, const ReferenceTrace& reference, int num_chunks) {
  for (int c = 0; c < num_chunks; ++c) {
    const ChunkInfo& chunk = reference.chunks[c];
    for (std::size_t index = 0; index < reference.layers.size(); ++index) {
      write_layer_of(writer, reference, c, static_cast<int>(index));
      for (std::size_t run = 0; run < reference.header.runs.size(); ++run) {
        writer.write_run(chunk, reference.runs[run][index][c]);
      }
      if (reference.header.probe_len > 0 && chunk.phase == Phase::Prefill) {
        write_probe_of(writer, reference, c, static_cast<int>(index));
      }
    }
    if (reference.header.probe_len > 0) {
      writer.write<float>(Field::Nll, chunk,
                          std::span(reference.novelty).subspan(chunk.begin, chunk.length));
    }
    writer.end_chunk(
        chunk, std::span(reference.ids).subspan(chunk.begin, chunk.length),
        {reference.texts.begin() + chunk.begin, reference.texts.begin() + chunk.end()});
  }
}

void write_trace(const fs::path& path, const ReferenceTrace& reference, bool overwrite) {
  TraceWriter writer(path, reference.header, overwrite);
  write_chunks(writer, reference, static_cast<int>(reference.chunks.size()));
  writer.finish(reference.generated, true);
}

void read_everything(const fs::path& path) {
  const auto attempt = [](const auto& body) {
    try {
      body();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::Internal) throw;
    }
  };
  attempt([&] {
    const TraceReader reader(path);
    const TraceInfo& info = reader.info();
    attempt([&] { reader.token_ids(); });
    attempt([&] { reader.token_texts(); });
    attempt([&] { reader.read<float>(Field::Nll); });
    std::vector<float> rows(static_cast<std::size_t>(std::min(info.num_tokens, 4096)) *
                            std::min(info.model.head_dim, 4096));
    const std::int32_t end = std::min(info.num_tokens, 4096);
    for (const int layer : info.layers) {
      for (const auto what : {Stored::Q, Stored::K, Stored::V}) {
        if (info.model.head_dim > 4096) continue;
        attempt([&] { reader.read_rows(what, layer, 0, 0, end, rows.data()); });
      }
      attempt([&] { reader.read_lse(layer, 0, 0, end, rows.data()); });
      for (std::size_t c = 0; c < info.chunks.size(); ++c) {
        attempt([&] { reader.read_key_mass(layer, static_cast<int>(c)); });
        attempt([&] { reader.read_probe(layer, static_cast<int>(c)); });
      }
      for (const auto& run : info.runs) attempt([&] { reader.read_run(run.id, layer); });
    }
  });
}

}  // namespace kvloupe::trace::testing
