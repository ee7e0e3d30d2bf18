// A model read from disk: configuration, dequantised weights, tokenizer.
#pragma once

#include "capture/model/model_config.h"
#include "capture/text/tokenizer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::capture {

// fp32. Projections are [out_features, in_features], plain or packed (linear.h).
struct LayerWeights {
  at::Tensor attn_norm;     // [hidden_size]
  at::Tensor qkv_proj;      // [(num_q_heads + 2 * num_kv_heads) * head_dim, hidden_size]: q, k, v
  at::Tensor o_proj;        // [hidden_size, num_q_heads * head_dim]
  at::Tensor ffn_norm;      // [hidden_size]
  at::Tensor gate_up_proj;  // [2 * ffn_size, hidden_size]: gate, up
  at::Tensor down_proj;     // [hidden_size, ffn_size]
};

struct LoadedModel : ModelConfig {
  std::int64_t vocab_size = 0;
  at::Tensor token_embedding;  // [vocab_size, hidden_size]
  at::Tensor output_norm;
  at::Tensor output;  // [vocab_size, hidden_size]; the embedding when tied
  std::vector<LayerWeights> layers;
  Tokenizer tokenizer;
};

inline constexpr std::string_view kBundledModel = "smollm2";

// `name_or_path`: kBundledModel or a .gguf file. Throws Error{Input} for anything
// damaged or unsupported, naming the tensor or key; nothing is allocated before it was checked.
std::shared_ptr<const LoadedModel> load_model(const std::string& name_or_path);

// SHA-256 of the bundled model's file; empty where the set-up has not fetched it.
std::string bundled_model_hash();

}  // namespace kvloupe::capture
