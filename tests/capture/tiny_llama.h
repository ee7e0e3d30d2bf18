// A random Llama of two layers, three query heads to a KV head, as a GGUF file: for tests that need
// a model but no particular one.
#pragma once

#include "tests/capture/gguf_builder.h"
#include "tests/capture/tiny_vocabulary.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace kvloupe::capture {

struct TinyLlama {
  int num_layers = 2;
  int num_q_heads = 6;
  int num_kv_heads = 2;
  int head_dim = 8;
  int hidden_size = 40;  // not num_q_heads * head_dim: mixing the two up shows
  int ffn_size = 56;
  int context_length = 512;
  float rope_theta = 5000;
  float rms_norm_eps = 1e-5F;
  bool tied = true;
  std::map<std::string, std::vector<float>> weights;  // row-major
  GgufBuilder* of_layers = nullptr;                   // takes the tensors of the layers, if any

  explicit TinyLlama(unsigned seed = 1) : random_(seed) {}

  // Fills `weights` and puts the file together.
  GgufBuilder build() {
    GgufBuilder builder;
    builder.add_text("general.architecture", "llama");
    builder.add_text("general.name", "tiny");
    builder.add_u32("llama.block_count", num_layers);
    builder.add_u32("llama.attention.head_count", num_q_heads);
    builder.add_u32("llama.attention.head_count_kv", num_kv_heads);
    builder.add_u32("llama.attention.key_length", head_dim);
    builder.add_u32("llama.attention.value_length", head_dim);
    builder.add_u32("llama.rope.dimension_count", head_dim);
    builder.add_u32("llama.embedding_length", hidden_size);
    builder.add_u32("llama.feed_forward_length", ffn_size);
    builder.add_u32("llama.context_length", context_length);
    builder.add_f32("llama.rope.freq_base", rope_theta);
    builder.add_f32("llama.attention.layer_norm_rms_epsilon", rms_norm_eps);
    const TokenizerData vocabulary = tiny_vocabulary();
    builder.add_text("tokenizer.ggml.model", "gpt2");
    builder.add_text("tokenizer.ggml.pre", vocabulary.pre_tokenizer);
    builder.add_texts("tokenizer.ggml.tokens", vocabulary.tokens);
    builder.add_ints("tokenizer.ggml.token_type", vocabulary.types);
    builder.add_texts("tokenizer.ggml.merges", vocabulary.merges);
    builder.add_u32("tokenizer.ggml.bos_token_id", vocabulary.bos);
    builder.add_u32("tokenizer.ggml.eos_token_id", vocabulary.eos);
    builder.add_bool("tokenizer.ggml.add_bos_token", false);
    builder.add_text("tokenizer.chat_template", vocabulary.chat_template);

    const int vocab_size = static_cast<int>(vocabulary.tokens.size());
    add(builder, "token_embd.weight", vocab_size, hidden_size);
    add_norm(builder, "output_norm.weight");
    if (!tied) add(builder, "output.weight", vocab_size, hidden_size);
    for (int layer = 0; layer < num_layers; ++layer) {
      const std::string prefix = "blk." + std::to_string(layer) + ".";
      add_norm(builder, prefix + "attn_norm.weight");
      add(builder, prefix + "attn_q.weight", num_q_heads * head_dim, hidden_size);
      add(builder, prefix + "attn_k.weight", num_kv_heads * head_dim, hidden_size);
      add(builder, prefix + "attn_v.weight", num_kv_heads * head_dim, hidden_size);
      add(builder, prefix + "attn_output.weight", hidden_size, num_q_heads * head_dim);
      add_norm(builder, prefix + "ffn_norm.weight");
      add(builder, prefix + "ffn_gate.weight", ffn_size, hidden_size);
      add(builder, prefix + "ffn_up.weight", ffn_size, hidden_size);
      add(builder, prefix + "ffn_down.weight", hidden_size, ffn_size);
    }
    return builder;
  }

 private:
  GgufBuilder& target(GgufBuilder& builder, const std::string& name) const {
    return of_layers != nullptr && name.starts_with("blk.") ? *of_layers : builder;
  }
  void add(GgufBuilder& builder, const std::string& name, int rows, int columns) {
    std::normal_distribution<float> normal(0, 1.5F / std::sqrt(static_cast<float>(columns)));
    auto& values = weights[name];
    values.resize(static_cast<std::size_t>(rows) * columns);
    for (float& value : values) value = normal(random_);
    target(builder, name)
        .add_f32_tensor(
            name, {static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns)}, values);
  }
  void add_norm(GgufBuilder& builder, const std::string& name) {
    std::uniform_real_distribution<float> uniform(0.5F, 1.5F);
    auto& values = weights[name];
    values.resize(hidden_size);
    for (float& value : values) value = uniform(random_);
    target(builder, name).add_f32_tensor(name, {static_cast<std::uint64_t>(hidden_size)}, values);
  }

  std::mt19937 random_;
};

}  // namespace kvloupe::capture
