// What the decoder has to know of a model besides its weights: the description that it follows. Made
// from the model's files by its family (family.h), checked, without Torch.
#pragma once

#include "capture/model/model_source.h"
#include "core/trace/trace_types.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::capture {

// Root-mean-square norms of queries and keys before they are rotated: none, of each head (Qwen3,
// Gemma 3), or of all heads together (OLMoE).
enum class QkNorm { None, EachHead, AllHeads };

// gate and up to one: silu(gate) up; gelu(gate) up, its tanh form; GPT-OSS's
// min(gate, 7) sigmoid(1.702 gate) (clamp(up, -7, 7) + 1).
enum class Activation { Silu, GeluTanh, ClampedSwish };

enum class RopeScaling { None, Linear, Llama3, Yarn };

// The rotary embedding of some layers. Names as in Hugging Face's rope_parameters.
struct RopeForm {
  double theta = 10000;
  RopeScaling scaling = RopeScaling::None;
  double factor = 1;
  double original_context = 0;
  double low_freq_factor = 1, high_freq_factor = 4;  // Llama 3
  double beta_fast = 32, beta_slow = 1;              // YaRN
  bool truncate = true;
  double attention_factor = 0;  // 0: 0.1 ln(factor) + 1
  // Llama 3 in GGUF files: what each frequency is divided by; else empty.
  std::vector<float> divisors;
};

struct ExpertForm {
  int count = 0;  // 0: one feed-forward for all tokens
  int used = 0;   // by each token
  // Softmax over all experts before the best are taken, or over these alone.
  bool softmax_over_all = true;
  bool renormalised = false;  // then divided by the sum of those taken
};

struct ModelConfig {
  trace::ModelInfo info;
  std::int64_t context_length = 0;
  std::int64_t ffn_size = 0;  // of an expert, where there are any
  double rms_norm_eps = 0;
  double embedding_scale = 1;
  float norm_offset = 0;  // added to the weights of norms as they are read
  QkNorm qk_norm = QkNorm::None;
  bool norms_after = false;  // also of what attention and feed-forward add, before it is added
  bool sinks = false;        // a learned logit for each query head in the softmax
  // Biases that have to be there; others are used where they are.
  bool query_bias = false;  // of query, key and value
  Activation activation = Activation::Silu;
  ExpertForm experts;
  std::vector<RopeForm> ropes;
  std::vector<int> rope_of_layer;  // [num_layers] index in `ropes`; -1: no embedding
};

// The softmax of a layer without what is read with the weights (sinks).
SoftmaxForm& shaped_softmax(ModelConfig& model, int layer);

// Throws Error{Input} for what is missing, damaged or not implemented, naming the key.
ModelConfig read_config(const ModelSource& source);

}  // namespace kvloupe::capture
