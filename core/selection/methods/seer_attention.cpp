// SeerAttention: a trained gate says which blocks a block of queries attends to. Of queries and keys
// before the rotary embedding, in blocks of b:
//   qbar[h,I] = avg of block I's queries;  kbar[g,J] = concat(max, min, avg) of block J's keys
//   x[h,I]    = RoPE(qbar[h,I] W_q[h], b I);  y[g,J] = RoPE(kbar[g,J] W_k[g], b J)
//   s[h,I,:]  = softmax over J <= I of <x[h,I], y[g(h),J]> / sqrt(hidden)
//   mask      = s > threshold
// The embedding turns all hidden channels, in half-split pairs, with the model's theta.
// (SeerAttention, section 3; microsoft/SeerAttention, seer_attn/prefill_sparse/attn_gate.py.)
#include "core/selection/spec/method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/attention/upload.h"
#include "core/base/error.h"
#include "core/selection/blocks/block_selector.h"
#include "core/selection/blocks/gate.h"
#include "core/selection/cell_rows.h"
#include "core/selection/eviction/growing_rows.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::selection {
namespace {

constexpr const char* kWhatFailed = "seer_attention cannot run on this model";

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
    const Weights& weights = weights_of(cell);
    const BlockGrid grid = grid_of(cell, block_size_);
    BlockChoice choice(grid, cell.num_q_heads());
    choice.thresholds.assign(static_cast<std::size_t>(cell.num_q_heads() * grid.num_query_blocks()),
                             threshold_);
    const at::Tensor queries = gate_queries(cell, weights, grid),
                     keys = gate_keys(cell, weights, grid);
    // All are asked before the host waits for one of them.
    std::vector<at::Tensor> asked;
    for (std::int64_t i = 0; i < grid.num_query_blocks(); ++i)
      asked.push_back(
          key_products(queries.select(1, i), keys.narrow(1, 0, grid.block_of_query_block(i) + 1)));
    const std::vector<std::vector<float>> products = all_on_host<float>(asked);
    for (std::int64_t i = 0; i < grid.num_query_blocks(); ++i) {
      const std::int64_t causal = grid.block_of_query_block(i) + 1;
      for (std::int64_t head = 0; head < cell.num_q_heads(); ++head)
        score(products[static_cast<std::size_t>(i)].data() + head * causal,
              first_block(grid, cell.softmax, i), causal, choice.scores.row(head, i),
              choice.mask.row(head, i));
    }
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

  // [num_heads, width, hidden] on the device of the cells, where they are brought once for all chunks.
  struct Weights {
    at::Tensor queries;  // undefined where the gate has none
    at::Tensor keys;
  };
  const Weights& weights_of(const Cell& cell) {
    const GateLayer& layer = layer_of(cell.layer);
    Weights& there = weights_[cell.layer];
    const c10::Device device = cell.k.device();
    if (there.keys.defined() && there.keys.device() == device) return there;
    const auto brought = [&](const std::vector<float>& weights, std::int64_t heads,
                             std::int64_t width) {
      return attention::uploaded(at::from_blob(const_cast<float*>(weights.data()),
                                               {heads, width, gate_.hidden}, at::kFloat),
                                 device);
    };
    const std::int64_t dim = shape_.head_dim;
    there.queries =
        layer.q_weight.empty() ? at::Tensor() : brought(layer.q_weight, shape_.num_q_heads, dim);
    there.keys = brought(layer.k_weight, layer.num_k_heads, 3 * dim);
    return there;
  }

  // cos and sin at the positions of so many blocks and of some to come, [2, blocks, hidden / 2] fp64: of
  // all layers.
  at::Tensor turns_of(std::int64_t num_blocks, c10::Device device) {
    constexpr std::int64_t kFewest = 64;
    if (turns_.defined() && turns_.device() == device && turns_.size(1) >= num_blocks)
      return turns_;
    const std::int64_t blocks = std::max(kFewest, 2 * num_blocks);
    std::vector<double> cos, sin;
    for (std::int64_t block = 0; block < blocks; ++block) {
      const Rotary::Turn by = rotary_.turn(static_cast<double>(block * block_size_));
      cos.insert(cos.end(), by.cos.begin(), by.cos.end());
      sin.insert(sin.end(), by.sin.begin(), by.sin.end());
    }
    cos.insert(cos.end(), sin.begin(), sin.end());
    turns_ = attention::uploaded(at::tensor(cos, at::kDouble).view({2, blocks, gate_.hidden / 2}),
                                 device);
    return turns_;
  }

  // Rows of blocks from `first` on, at the positions of their blocks.
  at::Tensor turned(const at::Tensor& rows, std::int64_t first) {
    const std::int64_t heads = rows.size(0), count = rows.size(1), half = gate_.hidden / 2;
    const at::Tensor turns = turns_of(first + count, rows.device()).narrow(1, first, count);
    const at::Tensor cos = turns.select(0, 0), sin = turns.select(0, 1);
    const at::Tensor halves = rows.reshape({heads, count, 2, half}).to(at::kDouble);
    const at::Tensor x = halves.select(2, 0), y = halves.select(2, 1);
    return at::stack({x * cos - y * sin, x * sin + y * cos}, 2).to(at::kFloat).view(rows.sizes());
  }

  // `pooled` rows of blocks from `first` on times the gate's weights, where there are any, at the
  // positions of their blocks.
  at::Tensor embedded(const Cell& cell, const at::Tensor& pooled, const at::Tensor& weights,
                      std::int64_t first) {
    const at::Tensor rows = weights.defined() ? gate_rows(pooled, weights) : pooled;
    return has_rotary(shape_, cell.layer) ? turned(rows, first) : rows;
  }

  // x [num_q_heads, Q_b, hidden]
  at::Tensor gate_queries(const Cell& cell, const Weights& weights, const BlockGrid& grid) {
    return embedded(cell, pools_.queries(cell), weights.queries, grid.block_of_query_block(0));
  }

  // y [heads of the gate's keys, N_b, hidden]. Blocks that are whole stay as they are.
  at::Tensor gate_keys(const Cell& cell, const Weights& weights, const BlockGrid& grid) {
    Keys& keys = keys_[cell.layer];
    const std::int64_t whole = grid.kv_len() / block_size_;
    const std::int64_t known = std::min(keys.complete, whole), blocks = grid.num_key_blocks();
    if (known < blocks)
      keys.rows.put(known, embedded(cell, pools_.keys(cell, known, blocks), weights.keys, known));
    keys.complete = whole;
    return keys.rows.rows().narrow(1, 0, blocks);
  }

  // Softmax over the blocks [first, causal).
  void score(const float* products, std::int64_t first, std::int64_t causal, float* scores,
             std::uint8_t* mask) const {
    const double scale = 1 / std::sqrt(static_cast<double>(gate_.hidden));
    const auto largest =
        static_cast<double>(*std::max_element(products + first, products + causal));
    std::vector<double> weights(static_cast<std::size_t>(causal));
    double total = 0;
    for (std::int64_t j = first; j < causal; ++j) {
      weights[j] = std::exp(scale * (static_cast<double>(products[j]) - largest));
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
  at::Tensor turns_;
  std::map<int, Weights> weights_;  // by layer
  struct Keys {
    GrowingRows rows;
    std::int64_t complete = 0;  // blocks that were whole when they were pooled
  };
  std::map<int, Keys> keys_;  // by layer
};

}  // namespace

std::unique_ptr<BlockMasker> make_seer_attention_masker(const Setup& setup) {
  return std::make_unique<SeerAttention>(setup);
}

std::unique_ptr<Selector> make_seer_attention(const Setup& setup) {
  return make_block_selector(setup, make_seer_attention_masker(setup));
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it
#include "core/base/error.h"
#include "core/selection/blocks/gate_file.h"

namespace kvloupe::selection {

std::vector<ParamInfo> seer_attention_params() {
  return {int_param("block_size", 64, 1, 1 << 20, "tokens of a block, as the gate was trained"),
          float_param("threshold", 0.0003, 0, 1,
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

void describe_seer_attention(Method& method) {
  method.title = "SeerAttention";
  method.paper_spec = "seer_attention:threshold=0.0003,gate=PATH,lowering=native";
  method.deviation =
      "in every lowering the last two query blocks are not opened; a query block that the chunk "
      "cuts "
      "pools the chunk's rows alone; queries and keys from before the rotary embedding are got "
      "back "
      "from the stored ones (after the model's own normalisation of queries and keys, where it has "
      "one); the gate's arithmetic is fp32, not the model's bf16; decodes densely; lowering=union "
      "is "
      "CompactAttention's: a KV head sees the union over the chunk's query blocks and the group's "
      "heads, and the whole chunk, where the kernel runs on each head's own mask (CompactAttention "
      "has threshold=0.0005 there); lowering=budget is KVLoupe's: whole blocks by mean score";
  method.summary =
      "Keeps the blocks that a small trained network expects a block of queries to attend to.";
  method.paper =
      "Gao et al.: SeerAttention: learning intrinsic sparse attention in your LLMs, 2024, arXiv "
      "2410.13276";
  method.evidence =
      "repository microsoft/SeerAttention (seer_attn/prefill_sparse/attn_gate.py, gate type "
      "Qavg_Kmaxminavg; modeling_llama_seerattn.py); the default threshold is the one of "
      "CompactAttention's comparison with SeerAttention alone (its own README has 0.0005 to 0.005)";
  method.needs = {"q", "k"};
  method.params = seer_attention_params();
  add_lowering(method);
  method.traits = [](const MethodSpec& spec, Traits& traits) {
    traits.page_size = spec.integer("block_size");
  };
  method.metadata = metadata_of_seer_attention;
}

}  // namespace kvloupe::selection

#endif
