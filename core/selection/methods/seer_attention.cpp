// SeerAttention: a trained gate says which blocks a block of queries attends to. Of queries and keys
// before the rotary embedding, in blocks of b:
//   qbar[h,I] = avg of block I's queries;  kbar[g,J] = concat(max, min, avg) of block J's keys
//   x[h,I]    = RoPE(qbar[h,I] W_q[h], b I);  y[g,J] = RoPE(kbar[g,J] W_k[g], b J)
//   s[h,I,:]  = softmax over J <= I of <x[h,I], y[g(h),J]> / sqrt(hidden)
//   mask      = s > threshold
// The embedding turns all hidden channels, in half-split pairs, with the model's theta.
// (SeerAttention, section 3; microsoft/SeerAttention, seer_attn/prefill_sparse/attn_gate.py.)
#include "core/selection/method.h"

#ifdef KVLOUPE_SELECTORS
#include "core/base/error.h"
#include "core/selection/block_selector.h"
#include "core/selection/cell_rows.h"
#include "core/selection/gate.h"
#include "core/selection/kernels.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

namespace kvloupe::selection {
namespace {

constexpr const char* kWhatFailed = "seer_attention cannot run on this model";

// row W, fp32; W [rows, columns].
void project(const float* row, const float* weight, std::int64_t rows, std::int64_t columns,
             float* out) {
  std::fill_n(out, columns, 0.0F);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t o = 0; o < columns; ++o) out[o] += row[i] * weight[i * columns + o];
}

class SeerAttention final : public BlockMasker {
 public:
  explicit SeerAttention(const Setup& setup)
      : shape_(setup.shape),
        block_size_(setup.spec.integer("block_size")),
        threshold_(static_cast<float>(setup.spec.real("threshold"))),
        path_(setup.spec.text("gate")),
        gate_(read_gate(path_, shape_)),
        pools_(shape_, block_size_, kWhatFailed),
        rotary_(shape_.rope_theta, gate_.hidden, trace::RopePairing::HalfSplit) {
    const auto trained = gate_.metadata.find("block_size");
    if (trained != gate_.metadata.end() && trained->second != fmt::format("{}", block_size_))
      throw input_error(fmt::format("seer_attention cannot use {}", path_),
                        fmt::format("it was trained for blocks of {} tokens", trained->second),
                        fmt::format("give block_size={}", trained->second));
  }

  BlockChoice choose(const Cell& cell) override {
    const GateLayer& layer = layer_of(cell.layer);
    const BlockGrid grid = grid_of(cell, block_size_);
    BlockChoice choice(grid, cell.num_q_heads());
    const std::vector<float> queries = gate_queries(cell, layer, grid);
    const std::vector<std::vector<float>> keys = gate_keys(cell, layer, grid);
    const std::int64_t blocks = grid.num_query_blocks();
    const std::int64_t q_heads_per_key = cell.num_q_heads() / layer.num_k_heads;
    for_each_item(cell.num_q_heads() * blocks, grid.num_key_blocks() * (gate_.hidden + 16),
                  [&](std::int64_t item) {
                    const std::int64_t head = item / blocks;
                    const std::int64_t i = item % blocks;
                    score(queries.data() + item * gate_.hidden,
                          keys[static_cast<std::size_t>(head / q_heads_per_key)].data(),
                          first_block(grid, cell.softmax, i), grid.block_of_query_block(i) + 1,
                          choice.scores.row(head, i), choice.mask.row(head, i));
                  });
    return choice;
  }

 private:
  const GateLayer& layer_of(int layer) const {
    const auto found = gate_.layers.find(layer);
    if (found == gate_.layers.end())
      throw input_error(fmt::format("seer_attention cannot run in layer {}", layer),
                        fmt::format("{} has no weights for it", path_),
                        "train the gate on a trace that has the layer, or leave the layer out");
    return found->second;
  }

  // One row of the gate from one pooled row.
  void embed(const float* pooled, const float* weight, std::int64_t width, const Rotary::Turn* turn,
             float* out) const {
    if (weight == nullptr)
      std::copy_n(pooled, gate_.hidden, out);
    else
      project(pooled, weight, width, gate_.hidden, out);
    if (turn != nullptr) rotary_.apply(*turn, out);
  }

  // x [num_q_heads, Q_b, hidden]
  std::vector<float> gate_queries(const Cell& cell, const GateLayer& layer,
                                  const BlockGrid& grid) const {
    const std::vector<float> pooled = pools_.queries(cell);
    const std::int64_t blocks = grid.num_query_blocks();
    const std::int64_t dim = shape_.head_dim;
    std::vector<float> rows(static_cast<std::size_t>(cell.num_q_heads() * blocks * gate_.hidden));
    for_each_item(blocks, cell.num_q_heads() * dim * gate_.hidden, [&](std::int64_t i) {
      const Rotary::Turn turn = rotary_.turn(first_position(grid.block_of_query_block(i)));
      for (std::int64_t head = 0; head < cell.num_q_heads(); ++head)
        embed(pooled.data() + (head * blocks + i) * dim,
              layer.q_weight.empty() ? nullptr : layer.q_weight.data() + head * dim * gate_.hidden,
              dim, has_rotary(shape_, cell.layer) ? &turn : nullptr,
              rows.data() + (head * blocks + i) * gate_.hidden);
    });
    return rows;
  }

  // y, per head of the gate's keys [N_b, hidden]. Blocks that are whole stay as they are.
  std::vector<std::vector<float>> gate_keys(const Cell& cell, const GateLayer& layer,
                                            const BlockGrid& grid) {
    std::vector<std::vector<float>>& whole = whole_blocks_[cell.layer];
    whole.resize(static_cast<std::size_t>(layer.num_k_heads));
    const std::int64_t blocks = grid.num_key_blocks();
    const std::int64_t num_whole = grid.kv_len() / block_size_;
    const std::int64_t known =
        std::min(static_cast<std::int64_t>(whole.front().size()) / gate_.hidden, num_whole);
    std::vector<std::vector<float>> keys;
    for (const std::vector<float>& head : whole)
      keys.emplace_back(head.begin(), head.begin() + known * gate_.hidden);
    append_keys(cell, layer, known, blocks, keys);
    for (std::size_t head = 0; head < keys.size(); ++head)
      whole[head].assign(keys[head].begin(), keys[head].begin() + num_whole * gate_.hidden);
    return keys;
  }

  void append_keys(const Cell& cell, const GateLayer& layer, std::int64_t first, std::int64_t last,
                   std::vector<std::vector<float>>& keys) const {
    const std::vector<float> pooled = pools_.keys(cell, first, last);
    const std::int64_t width = 3 * shape_.head_dim;
    const std::int64_t k_heads_per_kv_head = layer.num_k_heads / cell.num_kv_heads();
    for (std::vector<float>& head : keys)
      head.resize(static_cast<std::size_t>(last * gate_.hidden));
    for_each_item(last - first, layer.num_k_heads * width * gate_.hidden, [&](std::int64_t item) {
      const Rotary::Turn turn = rotary_.turn(first_position(first + item));
      for (std::int64_t head = 0; head < layer.num_k_heads; ++head)
        embed(pooled.data() + (head / k_heads_per_kv_head * (last - first) + item) * width,
              layer.k_weight.data() + head * width * gate_.hidden, width,
              has_rotary(shape_, cell.layer) ? &turn : nullptr,
              keys[static_cast<std::size_t>(head)].data() + (first + item) * gate_.hidden);
    });
  }

  double first_position(std::int64_t block) const {
    return static_cast<double>(block * block_size_);
  }

  // Softmax over the blocks [first, causal).
  void score(const float* query, const float* keys, std::int64_t first, std::int64_t causal,
             float* scores, std::uint8_t* mask) const {
    dot_products(query, keys, causal, gate_.hidden, scores);
    const double scale = 1 / std::sqrt(static_cast<double>(gate_.hidden));
    const double largest = static_cast<double>(*std::max_element(scores + first, scores + causal));
    std::vector<double> weights(static_cast<std::size_t>(causal));
    double total = 0;
    for (std::int64_t j = first; j < causal; ++j) {
      weights[j] = std::exp(scale * (static_cast<double>(scores[j]) - largest));
      total += weights[j];
    }
    for (std::int64_t j = first; j < causal; ++j) {
      scores[j] = static_cast<float>(weights[j] / total);
      mask[j] = scores[j] > threshold_;
    }
  }

  ModelShape shape_;
  std::int64_t block_size_;
  float threshold_;  // as the scores: a tenth is not above 0.1
  std::string path_;
  Gate gate_;
  GatePools pools_;
  Rotary rotary_;
  std::map<int, std::vector<std::vector<float>>> whole_blocks_;  // by layer and head
};

}  // namespace

std::unique_ptr<BlockMasker> make_seer_attention_masker(const Setup& setup) {
  return std::make_unique<SeerAttention>(setup);
}

std::unique_ptr<Selector> make_seer_attention(const Setup& setup) {
  return make_block_selector(setup.spec, row_layout(setup.spec, setup.shape),
                             make_seer_attention_masker(setup));
}

}  // namespace kvloupe::selection

#else  // what is known of it
#include "core/base/error.h"
#include "core/selection/gate_file.h"

namespace kvloupe::selection {

std::vector<ParamInfo> seer_attention_params() {
  return {int_param("block_size", 64, 1, 1 << 20, "tokens of a block, as the gate was trained"),
          float_param("threshold", 0.0005, 0, 1,
                      "score, a share of the softmax over a query block's blocks, above which a "
                      "block is kept"),
          path_param("gate",
                     "safetensors file with the gate's weights, made by kvloupe calibrate "
                     "seer or published")};
}

// One vector of the gate for each block of keys.
std::optional<Metadata> metadata_of_seer_attention(const MethodSpec& spec,
                                                   const ModelShape& shape) {
  try {
    return Metadata{.lanes_per_page = read_gate(spec.text("gate"), shape).hidden};
  } catch (const Error&) {  // a recorded run may have outlived its gate
    return std::nullopt;
  }
}

Method seer_attention_method() {
  Method method;
  MethodInfo& info = method.info;
  info.id = "seer_attention";
  info.title = "SeerAttention";
  info.paper =
      "Gao et al.: SeerAttention: learning intrinsic sparse attention in your LLMs, 2024, arXiv "
      "2410.13276";
  info.evidence =
      "repository microsoft/SeerAttention (seer_attn/prefill_sparse/attn_gate.py, gate type "
      "Qavg_Kmaxminavg; modeling_llama_seerattn.py); the default threshold as in CompactAttention "
      "(repository jiwonsong-dev/CompactAttention)";
  info.deviation =
      "a KV head sees the union over the chunk's query blocks and the group's heads, and the whole "
      "chunk, where the kernel runs on each head's own mask (so does lowering=native); the last "
      "two query blocks are not "
      "opened; a query block that the chunk cuts pools the chunk's rows alone; queries and keys "
      "from before the rotary embedding are got back from the stored ones (after the model's own "
      "normalisation of queries and keys, where it has one); the gate's arithmetic is fp32, not "
      "the model's bf16; decodes densely; with lowering=budget whole blocks by mean score";
  info.summary =
      "Keeps the blocks that a small trained network expects a block of queries to attend to.";
  info.needs = {"q", "k"};
  info.granularity = trace::Granularity::Block;
  info.budget = BudgetUse::Optional;
  info.active_in_decode = false;
  info.params = seer_attention_params();
  info.params.push_back(lowering_param());
  method.traits = [](const MethodSpec& spec, Traits& traits) {
    traits.page_size = spec.integer("block_size");
  };
  method.metadata = metadata_of_seer_attention;
  return method;
}

}  // namespace kvloupe::selection

#endif
