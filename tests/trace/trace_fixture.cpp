#include "tests/trace/trace_fixture.h"

#include "core/base/error.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace kvloupe::trace::testing {
namespace {

namespace fs = std::filesystem;

// Multiples of 1/64 up to 2: exact in half precision.
std::vector<float> random_values(std::mt19937& random, std::size_t count) {
  std::vector<float> values(count);
  for (auto& value : values) value = (static_cast<int>(random() % 257) - 128) / 64.0f;
  return values;
}

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

void derive(const ReferenceTrace& reference, ReferenceTrace::Layer& layer) {
  const auto& model = reference.header.model;
  const int group = model.num_q_heads / model.num_kv_heads;
  const std::int32_t tokens = reference.num_tokens();
  const int dim = model.head_dim;
  layer.lse.assign(static_cast<std::size_t>(model.num_q_heads) * tokens, 0);
  for (const auto& chunk : reference.chunks) {
    std::vector<double> mass(static_cast<std::size_t>(model.num_kv_heads) * chunk.end(), 0);
    for (int head = 0; head < model.num_q_heads; ++head) {
      for (std::int32_t t = chunk.begin; t < chunk.end(); ++t) {
        std::vector<double> weights;
        double sum = 0;
        for (std::int32_t j = 0; j <= t; ++j) {
          double dot = 0;
          for (int i = 0; i < dim; ++i) {
            dot += static_cast<double>(layer.q[(std::size_t(head) * tokens + t) * dim + i]) *
                   layer.k[(std::size_t(head / group) * tokens + j) * dim + i];
          }
          weights.push_back(std::exp(model.softmax_scale * dot));
          sum += weights.back();
        }
        layer.lse[std::size_t(head) * tokens + t] = static_cast<float>(std::log(sum));
        for (std::int32_t j = 0; j <= t; ++j) {
          mass[std::size_t(head / group) * chunk.end() + j] += weights[j] / sum;
        }
      }
    }
    layer.key_mass.emplace_back();
    if (chunk.phase == Phase::Prefill) layer.key_mass.back().assign(mass.begin(), mass.end());
  }
}

RunInfo run_info(int id, const char* method, StateAction action) {
  RunInfo run;
  run.id = id;
  run.method = method;
  run.q_heads_per_row = 2;
  run.state_action = action;
  return run;
}

// Run 0: the newest eight past keys, dense while they fit.
RunChunk visible_cell(const ReferenceTrace& reference, int layer, const ChunkInfo& chunk) {
  RunChunk data;
  data.run = 0;
  data.layer = layer;
  for (int row = 0; row < reference.header.model.num_kv_heads; ++row) {
    std::vector<std::int32_t> positions;
    for (std::int32_t j = std::max(0, chunk.begin - 8 - row); j < chunk.begin - row; ++j) {
      positions.push_back(j);
    }
    data.rows.push_back(chunk.begin <= 8 ? std::vector<std::int32_t>{} : positions);
    data.flags.push_back(chunk.begin <= 8 ? kCellDenseFallback : 0);
  }
  return data;
}

// Run 1 keeps the newest 20 keys after each chunk.
RunChunk evicting_cell(const ReferenceTrace& reference, int layer, int chunk_index) {
  const ChunkInfo& chunk = reference.chunks[chunk_index];
  RunChunk data;
  data.run = 1;
  data.layer = layer;
  const std::int32_t alive_from = std::max(0, chunk.begin - 20);
  std::vector<std::int32_t> alive;
  for (std::int32_t j = alive_from; j < chunk.begin; ++j) alive.push_back(j);
  std::vector<std::int32_t> dead;
  for (std::int32_t j = alive_from; j < chunk.end() - 20; ++j) dead.push_back(j);
  const bool fits = chunk.begin <= 20;
  for (int row = 0; row < reference.header.model.num_kv_heads; ++row) {
    data.rows.push_back(fits ? std::vector<std::int32_t>{} : alive);
    data.flags.push_back(fits ? kCellDenseFallback : 0);
    data.evicted.push_back(dead);
  }
  return data;
}

// Lane i of query head h is used by all rows, by some or by none, in turn.
std::vector<std::int32_t> lane_counts_of(const ModelInfo& model, int layer, int run,
                                         const ChunkInfo& chunk) {
  std::vector<std::int32_t> counts;
  for (int head = 0; head < model.num_q_heads; ++head) {
    for (int lane = 0; lane < model.head_dim; ++lane) {
      const int kind = (lane + head + layer + run) % 3;
      counts.push_back(kind == 0 ? chunk.length : kind == 1 ? chunk.length / 2 : 0);
    }
  }
  return counts;
}

}  // namespace

void add_probe_and_lanes(ReferenceTrace& reference) {
  auto& header = reference.header;
  header.probe_text = "what is it about?";
  header.probe_len = 5;
  header.probe_ids = {4, 8, 15, 16, 23};
  std::mt19937 random(11);
  reference.novelty = {std::numeric_limits<float>::infinity()};
  for (std::int32_t t = 1; t < reference.num_tokens(); ++t) {
    reference.novelty.push_back(static_cast<float>(random() % 1000) / 64.0f);
  }
  const std::size_t probe_values =
      std::size_t(header.model.num_q_heads) * header.probe_len * header.model.head_dim;
  for (auto& layer : reference.layers) {
    for (std::size_t c = 0; c < reference.chunks.size(); ++c) {
      layer.probe_q.push_back(random_values(random, probe_values));
    }
  }
  RunInfo aqua = run_info(2, "aqua:dim_ratio=0.5,basis=auto", StateAction::Visibility);
  aqua.granularity = Granularity::Lane;
  aqua.decode_dense = true;
  aqua.basis_source = "persuasion";
  aqua.basis_hash = std::string(64, 'b');
  RunInfo both = aqua;
  both.id = 3;
  both.method = "aqua_h2o:dim_ratio=0.5,basis=self,token_ratio=0.5,recent_ratio=0.5";
  both.state_action = StateAction::Eviction;
  both.decode_dense = false;
  both.basis_source = "this trace";
  both.basis_leakage = true;
  header.runs.push_back(aqua);
  header.runs.push_back(both);
  reference.runs.resize(4, std::vector<std::vector<RunChunk>>(header.layers.size()));
  for (std::size_t index = 0; index < header.layers.size(); ++index) {
    const int layer = header.layers[index];
    for (std::size_t c = 0; c < reference.chunks.size(); ++c) {
      const ChunkInfo& chunk = reference.chunks[c];
      RunChunk lanes;
      lanes.run = 2;
      lanes.layer = layer;
      lanes.rows.resize(2);
      lanes.flags.assign(2, chunk.begin == 0 ? kCellDenseFallback : kCellDenseByRule);
      lanes.lane_counts = lane_counts_of(header.model, layer, 2, chunk);
      reference.runs[2][index].push_back(lanes);
      RunChunk evicting = reference.runs[1][index][c];
      evicting.run = 3;
      evicting.lane_counts = lane_counts_of(header.model, layer, 3, chunk);
      reference.runs[3][index].push_back(evicting);
    }
  }
}

// The mask of a query block: its own block, block 0 and a third of the others.
bool keeps_block(const ChunkInfo& chunk, int layer, int head, int query_block, int block) {
  const int own = chunk.begin / 6 + query_block;
  if (block > own) return false;
  return block == own || block == 0 || (block + head + layer + query_block) % 3 == 0;
}

void add_blocks(ReferenceTrace& reference) {
  auto& header = reference.header;
  for (const bool tables : {false, true}) {
    RunInfo run = run_info(static_cast<int>(header.runs.size()),
                           tables ? "compact_attention:block_size=6" : "flash_prefill:block_size=6",
                           StateAction::Visibility);
    run.granularity = Granularity::Block;
    run.decode_dense = true;
    run.block_size = 6;
    run.block_tables = tables;
    if (tables) run.row_axis = RowAxis::Subgroup;
    if (tables) run.q_heads_per_row = 1;
    header.runs.push_back(run);
    auto& of_run = reference.runs.emplace_back(header.layers.size());
    for (std::size_t index = 0; index < header.layers.size(); ++index) {
      const int layer = header.layers[index];
      for (const ChunkInfo& chunk : reference.chunks) {
        const bool dense = chunk.begin == 0 || chunk.phase == Phase::Decode;
        const int blocks = (chunk.end() + 5) / 6, query_blocks = blocks - chunk.begin / 6;
        RunChunk data;
        data.run = run.id;
        data.layer = layer;
        for (int row = 0; row < 4 / run.q_heads_per_row; ++row) {
          data.flags.push_back(chunk.begin == 0 ? kCellDenseFallback
                               : dense          ? kCellDenseByRule
                                                : 0);
          auto& positions = data.rows.emplace_back();
          for (int j = 0; j < chunk.begin && !dense; ++j) {
            bool kept = j / 6 == chunk.begin / 6;
            for (int head = row * run.q_heads_per_row; head < (row + 1) * run.q_heads_per_row;
                 ++head)
              for (int i = 0; i < query_blocks; ++i)
                kept = kept || keeps_block(chunk, layer, head, i, j / 6);
            if (kept) positions.push_back(j);
          }
        }
        for (int head = 0; head < 4; ++head) {
          for (int i = 0; i < query_blocks; ++i) {
            for (int byte = 0; byte < (blocks + 7) / 8; ++byte) {
              int value = 0;
              for (int bit = 0; bit < 8; ++bit) {
                const int block = byte * 8 + bit;
                const bool causal = block <= chunk.begin / 6 + i;
                if (block < blocks &&
                    (dense ? causal : keeps_block(chunk, layer, head, i, block))) {
                  value += 1 << bit;
                }
              }
              data.block_mask.push_back(static_cast<std::uint8_t>(value));
            }
          }
        }
        of_run[index].push_back(std::move(data));
      }
    }
  }
}

ReferenceTrace make_reference(DType dtype) {
  ReferenceTrace reference;
  auto& header = reference.header;
  auto& model = header.model;
  model.name = "tiny";
  model.architecture = "llama";
  model.num_layers = 3;
  model.num_q_heads = 4;
  model.num_kv_heads = 2;
  model.head_dim = 8;
  model.hidden_size = 32;
  model.softmax_scale = 0.35;
  model.rope_theta = 10000;
  model.rope_pairing = RopePairing::Interleaved;
  model.file_hash = std::string(64, 'a');
  model.layer_types.assign(3, LayerType::Full);
  header.dtype = dtype;
  header.layers = {0, 2};
  header.max_tokens = 80;
  header.max_chunks = 30;
  header.store_mass = true;
  header.spans = {{"needle", 3, 9}, {"question", 40, 53}};
  header.runs = {run_info(0, "sliding_window:budget_tokens=8,budget_ratio=0,budget_scope=past",
                          StateAction::Visibility),
                 run_info(1, "streaming_llm:budget_tokens=20,budget_ratio=0,budget_scope=past",
                          StateAction::Eviction)};

  std::int32_t begin = 0;
  for (const std::int32_t length : {16, 16, 16, 5, 1, 1}) {
    reference.chunks.push_back({begin, length, length == 1 ? Phase::Decode : Phase::Prefill});
    begin += length;
  }
  std::mt19937 random(7);
  for (std::int32_t t = 0; t < begin; ++t) {
    reference.ids.push_back(static_cast<std::int32_t>(random() % 49152));
    // Every third token is half of a two-byte character, some are empty.
    reference.texts.push_back(t % 3 == 0 ? "\xc3" : t % 3 == 1 ? "\xa9x" : t % 5 == 0 ? "" : " wd");
  }
  // The two decoded tokens and one that was sampled last and never fed.
  reference.generated = {reference.ids[53], reference.ids[54], 13};
  const std::size_t per_head = static_cast<std::size_t>(begin) * model.head_dim;
  for (const int layer : header.layers) {
    ReferenceTrace::Layer values;
    values.q = random_values(random, per_head * model.num_q_heads);
    values.k = random_values(random, per_head * model.num_kv_heads);
    values.v = random_values(random, per_head * model.num_kv_heads);
    derive(reference, values);
    reference.layers.push_back(std::move(values));
    static_cast<void>(layer);
  }
  reference.runs.resize(2, std::vector<std::vector<RunChunk>>(header.layers.size()));
  for (std::size_t index = 0; index < header.layers.size(); ++index) {
    for (std::size_t chunk = 0; chunk < reference.chunks.size(); ++chunk) {
      const int layer = header.layers[index];
      reference.runs[0][index].push_back(visible_cell(reference, layer, reference.chunks[chunk]));
      reference.runs[1][index].push_back(evicting_cell(reference, layer, static_cast<int>(chunk)));
    }
  }
  return reference;
}

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
      writer.write_novelty(chunk, std::span(reference.novelty).subspan(chunk.begin, chunk.length));
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
    } catch (const Error&) {
    }
  };
  attempt([&] {
    const TraceReader reader(path);
    const TraceInfo& info = reader.info();
    attempt([&] { reader.token_ids(); });
    attempt([&] { reader.token_texts(); });
    attempt([&] { reader.read_novelty(); });
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
