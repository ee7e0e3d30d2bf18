// A model read from disk: configuration, dequantised weights, tokenizer.
#pragma once

#include "capture/tokenizer.h"
#include "core/trace/trace_types.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace kvloupe::capture {

struct LayerWeights {
  // fp32, [out_features, in_features].
  at::Tensor attn_norm, q_proj, k_proj, v_proj, o_proj, ffn_norm, gate_proj, up_proj, down_proj;
};

struct LoadedModel {
  trace::ModelInfo info;
  std::int64_t context_length = 0;
  std::int64_t vocab_size = 0;
  double rms_norm_eps = 0;
  at::Tensor token_embedding;  // [vocab_size, hidden_size]
  at::Tensor output_norm;
  at::Tensor output;           // [vocab_size, hidden_size]; the embedding when tied
  std::vector<LayerWeights> layers;
  Tokenizer tokenizer;
};

// `name_or_path`: "smollm2" (the bundled model) or a .gguf file. Throws Error{Input} for anything
// damaged or unsupported, naming the tensor or key; nothing is allocated before it was checked.
std::shared_ptr<const LoadedModel> load_model(const std::string& name_or_path);

}  // namespace kvloupe::capture
