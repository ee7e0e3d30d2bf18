// A random Llama small enough for tests of a second, in memory: bytes are its tokens.
#pragma once

#include "capture/model/family.h"
#include "capture/model/model.h"
#include "tests/capture/tiny_vocabulary.h"

#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::capture {

struct TinyShape {
  int num_layers = 3;
  int num_q_heads = 6;
  int num_kv_heads = 2;
  int head_dim = 16;
  int ffn_size = 64;
  std::int64_t context_length = 1024;
  std::uint64_t seed = 1;
  ComputeType compute = ComputeType::Fp32;  // what the model says; its weights stay fp32
};

// Ids 0 to 2 are control tokens (2 ends an answer), 3 + b is byte b.
inline Tokenizer byte_tokenizer() {
  TokenizerData data;
  data.pre_tokenizer = "smollm";
  data.tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  data.types = {3, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    data.tokens.push_back(byte_character(byte));
    data.types.push_back(1);
  }
  data.bos = 1;
  data.eos = 2;
  data.chat_template = kChatMl;
  return Tokenizer(std::move(data));
}

inline std::shared_ptr<LoadedModel> make_tiny_model(const TinyShape& shape = {}) {
  auto model = std::make_shared<LoadedModel>();
  trace::ModelInfo& info = model->info;
  info.name = "tiny";
  info.architecture = "llama";
  info.num_layers = shape.num_layers;
  info.num_q_heads = shape.num_q_heads;
  info.num_kv_heads = shape.num_kv_heads;
  info.head_dim = shape.head_dim;
  info.hidden_size = shape.num_q_heads * shape.head_dim;
  info.softmax_scale = 1.0 / std::sqrt(static_cast<double>(shape.head_dim));
  info.rope_theta = 10000;
  info.rope_pairing = trace::RopePairing::Interleaved;
  info.file_hash = std::string(64, '0');
  info.compute = shape.compute;
  info.layer_types.assign(static_cast<std::size_t>(shape.num_layers), trace::LayerType::Full);

  at::Generator random = at::detail::createCPUGenerator(shape.seed);
  // Larger than in a trained model, so that attention is far from uniform.
  const auto weights = [&](std::int64_t rows, std::int64_t columns) {
    return at::randn({rows, columns}, random, at::kFloat) *
           (1.5 / std::sqrt(static_cast<double>(columns)));
  };
  const std::int64_t hidden = info.hidden_size;
  model->tokenizer = byte_tokenizer();
  model->context_length = shape.context_length;
  model->vocab_size = model->tokenizer.vocab_size();
  model->ffn_size = shape.ffn_size;
  model->rms_norm_eps = 1e-5;
  RopeForm rope;
  rope.theta = info.rope_theta;
  use_one_rope(*model, rope);
  model->token_embedding = weights(model->vocab_size, hidden);
  model->output_norm = at::ones({hidden}, at::kFloat);
  model->output = weights(model->vocab_size, hidden);
  for (int layer = 0; layer < shape.num_layers; ++layer) {
    LayerWeights each;
    each.attn_norm = at::ones({hidden}, at::kFloat);
    each.qkv_proj = weights((shape.num_q_heads + 2 * shape.num_kv_heads) * shape.head_dim, hidden);
    each.o_proj = weights(hidden, shape.num_q_heads * shape.head_dim);
    each.ffn_norm = at::ones({hidden}, at::kFloat);
    each.ffn.gate_up_proj = weights(2 * shape.ffn_size, hidden);
    each.ffn.down_proj = weights(hidden, shape.ffn_size);
    model->layers.push_back(std::move(each));
  }
  return model;
}

}  // namespace kvloupe::capture
