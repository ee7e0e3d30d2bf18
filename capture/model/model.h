// A model read from disk: configuration, weights as the decoder multiplies by them, tokenizer.
#pragma once

#include "capture/model/model_config.h"
#include "capture/model/model_file.h"
#include "capture/text/tokenizer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::capture {

// Undefined tensors are of parts that the model does not have. fp32, but for projections,
// [out_features, in_features], and the ends of the model, which are of its compute type. On the CPU
// projections are packed (linear.h), on another device plain. Biases are [out_features].
struct FeedForward {
  at::Tensor gate_up_proj, gate_up_bias;  // [2 * ffn_size, hidden_size]: gate, up
  at::Tensor down_proj, down_bias;        // [hidden_size, ffn_size]
};

struct LayerWeights {
  at::Tensor attn_norm;            // [hidden_size]
  at::Tensor qkv_proj, qkv_bias;   // [(num_q_heads + 2 * num_kv_heads) * head_dim, hidden_size]
  at::Tensor q_norm, k_norm;       // [head_dim], or of all heads
  at::Tensor o_proj, o_bias;       // [hidden_size, num_q_heads * head_dim]
  at::Tensor after_attn_norm;      // [hidden_size]
  at::Tensor ffn_norm;             // [hidden_size]
  FeedForward ffn;                 // where there are no experts
  at::Tensor router, router_bias;  // [experts, hidden_size]
  std::vector<FeedForward> experts;
  at::Tensor after_ffn_norm;  // [hidden_size]
};

struct LoadedModel : ModelConfig {
  std::int64_t vocab_size = 0;
  at::Tensor token_embedding;  // [vocab_size, hidden_size]
  at::Tensor output_norm;
  at::Tensor output;  // [vocab_size, hidden_size]; the embedding when tied
  std::vector<LayerWeights> layers;
  Tokenizer tokenizer;

  c10::Device device() const { return token_embedding.device(); }  // all weights are there
};

// Takes the weights to a device, which may be where they are.
void move_to(LayerWeights& weights, c10::Device device);
void move_to(LoadedModel& model, c10::Device device);

// `name_or_path` as path_of_model() takes it. Throws Error{Input} for anything damaged or unsupported,
// naming the tensor or key; nothing is allocated before it was checked. `device` is open
// (torch_device.h).
std::shared_ptr<const LoadedModel> load_model(const std::string& name_or_path,
                                              ComputeType compute = ComputeType::Fp32,
                                              c10::Device device = c10::kCPU);

// The device, opened. Throws Error{Usage} where several are named: a model is on one.
c10::Device device_for_model(const std::string& name);

// Throws Error{Input} where the weights are more than the device's memory.
void check_memory(const ModelSource& source, ComputeType compute, c10::Device device);
// All but the tokenizer; `config` is what read_config() gave.
std::shared_ptr<LoadedModel> load_weights(const ModelSource& source, ModelConfig config,
                                          ComputeType compute = ComputeType::Fp32,
                                          c10::Device device = c10::kCPU);

// SHA-256 of the bundled model's file; empty where the set-up has not fetched it.
std::string bundled_model_hash();

}  // namespace kvloupe::capture
