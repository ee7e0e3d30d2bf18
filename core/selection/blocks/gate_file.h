// SeerAttention's gate: what it is made of, and its file.
// Weight names and shapes are those of microsoft/SeerAttention (seer_attn/prefill_sparse/
// attn_gate.py), gate type Qavg_Kmaxminavg:
//   model.layers.<l>.self_attn.attn_gate.mask_linear_q.weight  [num_q_heads, head_dim, hidden]
//   model.layers.<l>.self_attn.attn_gate.mask_linear_k.weight  [heads, 3 head_dim, hidden]
// The keys' heads are KV heads. Where hidden = head_dim published gates lack mask_linear_q (pooled
// queries are compared as they are) and their keys have one head per query head.
#pragma once

#include "core/selection/spec/method_spec.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace kvloupe::selection {

struct GateLayer {
  std::vector<float> q_weight;  // [num_q_heads, head_dim, hidden], or empty
  std::vector<float> k_weight;  // [num_k_heads, 3 * head_dim, hidden]
  std::int64_t num_k_heads = 0;
};

struct Gate {
  std::int64_t hidden = 0;
  std::map<int, GateLayer> layers;
  // What the file says of itself: of ours model_name, model_hash, block_size, source and more.
  std::map<std::string, std::string> metadata;
};

// Throws Error{Input}: no such file, damaged, or of another model's shapes.
Gate read_gate(const std::filesystem::path& path, const ModelShape& shape);
void write_gate(const std::filesystem::path& path, const Gate& gate, const ModelShape& shape);

}  // namespace kvloupe::selection
