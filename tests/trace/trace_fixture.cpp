// What the reference trace holds.
#include "tests/trace/trace_fixture.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace kvloupe::trace::testing {
namespace {

// Multiples of 1/64 up to 2: exact in half precision.
std::vector<float> random_values(std::mt19937& random, std::size_t count) {
  std::vector<float> values(count);
  for (auto& value : values) value = (static_cast<int>(random() % 257) - 128) / 64.0f;
  return values;
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

// Where `dense`, all of the past in every row; without a past that is why.
void make_dense(bool dense, DenseReason reason, const ChunkInfo& chunk, CellRecord& record) {
  record.num_candidates = chunk.begin;
  if (!dense) return;
  record.dense_reason = chunk.begin == 0 ? DenseReason::EmptyPast : reason;
  for (SelectedRow& row : record.rows) {
    row = {};
    for (std::int32_t j = 0; j < chunk.begin; ++j) row.positions.push_back(j);
  }
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
    // The keys of the last block of 8 and those next to the first one were kept by rule, say.
    std::vector<std::int32_t> forced;
    for (const std::int32_t j : positions)
      if (j / 8 == (chunk.begin - 1) / 8 || j == positions[1]) forced.push_back(j);
    data.record.rows.push_back({std::move(positions), std::move(forced), 0});
  }
  make_dense(chunk.begin <= 8, DenseReason::FitsBudget, chunk, data.record);
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
    data.record.rows.push_back({alive, {}, 0});
    data.evicted.push_back(dead);
  }
  make_dense(fits, DenseReason::FitsBudget, chunk, data.record);
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
  header.store.set(Part::Probe);
  header.store.set(Part::Loss);
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
      lanes.record.rows.resize(2);
      make_dense(true, DenseReason::MethodRule, chunk, lanes.record);
      // Lanes alone are pruned in the prompt.
      if (chunk.begin > 0 && chunk.phase == Phase::Prefill) lanes.record.dense_reason.reset();
      lanes.record.lane_counts = lane_counts_of(header.model, layer, 2, chunk);
      reference.runs[2][index].push_back(lanes);
      RunChunk evicting = reference.runs[1][index][c];
      evicting.run = 3;
      evicting.record.lane_counts = lane_counts_of(header.model, layer, 3, chunk);
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

namespace {

// By rule: a query block's own block, and block 0; the second of several query blocks has no vote.
BlockMasks masks_by_hand(const ChunkInfo& chunk, int layer, int blocks, int query_blocks) {
  BlockMasks masks;
  masks.grid = {6, chunk.begin, chunk.length};
  masks.num_q_heads = 4;
  for (int head = 0; head < 4; ++head) {
    for (int i = 0; i < query_blocks; ++i) {
      for (int block = 0; block < blocks; ++block) {
        const bool kept = keeps_block(chunk, layer, head, i, block);
        masks.kept.push_back(kept);
        masks.forced.push_back(block == 0 || block == chunk.begin / 6 + i);
      }
    }
  }
  if (query_blocks > 1) {
    masks.abstains.assign(static_cast<std::size_t>(query_blocks), 0);
    masks.abstains[1] = 1;
  }
  return masks;
}

}  // namespace

std::vector<std::uint8_t> packed_by_hand(const ChunkInfo& chunk, int layer) {
  const bool dense = chunk.begin == 0 || chunk.phase == Phase::Decode;
  const int blocks = (chunk.end() + 5) / 6, query_blocks = blocks - chunk.begin / 6;
  std::vector<std::uint8_t> packed;
  for (int head = 0; head < 4; ++head) {
    for (int i = 0; i < query_blocks; ++i) {
      for (int byte = 0; byte < (blocks + 7) / 8; ++byte) {
        int value = 0;
        for (int bit = 0; bit < 8; ++bit) {
          const int block = byte * 8 + bit;
          const bool causal = block <= chunk.begin / 6 + i;
          if (block < blocks && (dense ? causal : keeps_block(chunk, layer, head, i, block))) {
            value += 1 << bit;
          }
        }
        packed.push_back(static_cast<std::uint8_t>(value));
      }
    }
  }
  return packed;
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
          SelectedRow& chosen = data.record.rows.emplace_back();
          for (int j = 0; j < chunk.begin; ++j) {
            const bool straddles = j / 6 == chunk.begin / 6;
            bool kept = straddles;
            for (int head = row * run.q_heads_per_row; head < (row + 1) * run.q_heads_per_row;
                 ++head)
              for (int i = 0; i < query_blocks; ++i)
                kept = kept || keeps_block(chunk, layer, head, i, j / 6);
            if (kept) chosen.positions.push_back(j);
            if (straddles || j < 6) chosen.forced.push_back(j);
          }
        }
        make_dense(dense, DenseReason::MethodRule, chunk, data.record);
        if (!dense) data.record.blocks = masks_by_hand(chunk, layer, blocks, query_blocks);
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
  model.compute = ComputeType::Bf16;
  model.layer_types.assign(3, LayerType::Full);
  header.dtype = dtype;
  header.layers = {0, 2};
  header.max_tokens = 80;
  header.max_chunks = 30;
  header.store.set(Part::Mass);
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

}  // namespace kvloupe::trace::testing
