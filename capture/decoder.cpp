// The forward pass: norm, fused projections, RoPE, the hook's attention, SwiGLU; layer by layer.
#include "capture/decoder.h"

#include "capture/decoder_kernels.h"
#include "capture/model.h"
#include "core/base/error.h"

#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvloupe::capture {
namespace {

// Attention of a chunk to keys before it: the heads that share a KV head become rows of one
// product, so that K and V are read once and never expanded.
std::pair<at::Tensor, at::Tensor> attend_past(const AttentionCall& call) {
  const std::int64_t num_q_heads = call.q.size(0);
  const std::int64_t num_kv_heads = call.k.size(0);
  const std::int64_t rows = call.q.size(1);
  const std::int64_t head_dim = call.q.size(2);
  const at::Tensor folded =
      call.q.reshape({1, num_kv_heads, num_q_heads / num_kv_heads * rows, head_dim});
  const auto past = [&](const at::Tensor& cache) {
    return cache.narrow(1, 0, call.past_len).unsqueeze(0);
  };
  auto [output, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
      folded, past(call.k), past(call.v), 0.0, false, std::nullopt, call.softmax_scale);
  return {output.reshape({num_q_heads, rows, head_dim}), lse.reshape({num_q_heads, rows, 1})};
}

// Attention inside the chunk, causal. Its keys are few: they are expanded to the query heads.
std::pair<at::Tensor, at::Tensor> attend_chunk(const AttentionCall& call) {
  const std::int64_t num_q_heads = call.q.size(0);
  const std::int64_t num_kv_heads = call.k.size(0);
  const std::int64_t rows = call.q.size(1);
  const std::int64_t head_dim = call.q.size(2);
  const auto expanded = [&](const at::Tensor& cache) {
    return cache.narrow(1, call.past_len, rows)
        .unsqueeze(1)
        .expand({num_kv_heads, num_q_heads / num_kv_heads, rows, head_dim})
        .reshape({1, num_q_heads, rows, head_dim});
  };
  auto [output, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
      call.q.unsqueeze(0), expanded(call.k), expanded(call.v), 0.0, true, std::nullopt,
      call.softmax_scale);
  return {output.reshape({num_q_heads, rows, head_dim}), lse.reshape({num_q_heads, rows, 1})};
}

}  // namespace

at::Tensor DenseAttention::attend(const AttentionCall& call) {
  auto [chunk_output, chunk_lse] = attend_chunk(call);
  if (call.past_len == 0) return chunk_output;
  auto [past_output, past_lse] = attend_past(call);
  // Softmax over both sets of keys: each part weighs in with its share of the sum.
  return at::lerp(chunk_output, past_output, at::sigmoid(past_lse - chunk_lse));
}

struct Decoder::Impl {
  std::shared_ptr<const LoadedModel> model;
  DecoderOptions options;
  std::int64_t length = 0;
  std::vector<at::Tensor> k_cache, v_cache;  // per layer [num_kv_heads, max_tokens, head_dim]

  at::Tensor embed(std::span<const std::int32_t> tokens) const;
  at::Tensor attention(int layer, const at::Tensor& normed, const RopeTable& table,
                       AttentionHook& hook);
  void feed_forward(const LayerWeights& weights, at::Tensor& x) const;
};

Decoder::Decoder(std::shared_ptr<const LoadedModel> model, const DecoderOptions& options)
    : impl_(std::make_unique<Impl>()) {
  const trace::ModelInfo& info = model->info;
  if (options.max_tokens < 1 || options.max_tokens > model->context_length) {
    throw input_error(fmt::format("cannot run {} tokens through {}", options.max_tokens, info.name),
                      fmt::format("its context holds 1 to {} tokens", model->context_length),
                      "shorten the prompt or ask for fewer new tokens");
  }
  const c10::InferenceMode no_gradients;
  for (int layer = 0; layer < info.num_layers; ++layer) {
    for (auto* cache : {&impl_->k_cache, &impl_->v_cache}) {
      cache->push_back(
          at::empty({info.num_kv_heads, options.max_tokens, info.head_dim}, at::kFloat));
    }
  }
  impl_->model = std::move(model);
  impl_->options = options;
}

Decoder::~Decoder() = default;

std::int64_t Decoder::length() const { return impl_->length; }

at::Tensor Decoder::Impl::embed(std::span<const std::int32_t> tokens) const {
  const std::int64_t hidden = model->info.hidden_size;
  at::Tensor x = at::empty({static_cast<std::int64_t>(tokens.size()), hidden}, at::kFloat);
  const float* const rows = model->token_embedding.const_data_ptr<float>();
  float* out = x.data_ptr<float>();
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= model->vocab_size) {
      throw input_error(fmt::format("cannot run the token {}", token),
                        fmt::format("the vocabulary has {} tokens", model->vocab_size),
                        "use the tokenizer of this model");
    }
    out = std::copy_n(rows + token * hidden, hidden, out);
  }
  return x;
}

at::Tensor Decoder::Impl::attention(int layer, const at::Tensor& normed, const RopeTable& table,
                                    AttentionHook& hook) {
  const trace::ModelInfo& info = model->info;
  const std::int64_t num_q = info.num_q_heads;
  const std::int64_t num_kv = info.num_kv_heads;
  const std::int64_t rows = normed.size(0);
  const at::Tensor projected = at::mm(normed, model->layers[layer].qkv_proj.t());
  const at::Tensor heads =
      split_and_rotate(projected, num_q + 2 * num_kv, num_q + num_kv, table, info.rope_pairing);
  AttentionCall call;
  call.layer = layer;
  call.past_len = length;
  call.softmax_scale = info.softmax_scale;
  at::Tensor values = heads;
  if (options.round_to_half) {
    const at::Tensor half = heads.to(at::kHalf);
    call.q_half = half.narrow(0, 0, num_q);
    call.k_half = half.narrow(0, num_q, num_kv);
    call.v_half = half.narrow(0, num_q + num_kv, num_kv);
    values = half.to(at::kFloat);
  }
  k_cache[layer].narrow(1, length, rows).copy_(values.narrow(0, num_q, num_kv));
  v_cache[layer].narrow(1, length, rows).copy_(values.narrow(0, num_q + num_kv, num_kv));
  call.q = values.narrow(0, 0, num_q);
  call.k = k_cache[layer].narrow(1, 0, length + rows);
  call.v = v_cache[layer].narrow(1, 0, length + rows);
  // [num_q_heads, m, head_dim] -> [m, num_q_heads * head_dim]
  return hook.attend(call).transpose(0, 1).reshape({rows, num_q * info.head_dim});
}

void Decoder::Impl::feed_forward(const LayerWeights& weights, at::Tensor& x) const {
  const at::Tensor normed = rms_norm(x, weights.ffn_norm, model->rms_norm_eps);
  const at::Tensor gate_up = at::mm(normed, weights.gate_up_proj.t());
  const at::Tensor gate = gate_up.narrow(1, 0, model->ffn_size);
  const at::Tensor up = gate_up.narrow(1, model->ffn_size, model->ffn_size);
  x.addmm_(at::silu(gate).mul_(up), weights.down_proj.t());
}

at::Tensor Decoder::forward(std::span<const std::int32_t> tokens, AttentionHook& hook,
                            bool want_logits) {
  const c10::InferenceMode no_gradients;
  const LoadedModel& model = *impl_->model;
  const auto count = static_cast<std::int64_t>(tokens.size());
  KVLOUPE_CHECK(count > 0);
  if (count > impl_->options.max_tokens - impl_->length) {
    throw input_error(fmt::format("cannot run {} more tokens", count),
                      fmt::format("{} of {} places of the KV cache are taken", impl_->length,
                                  impl_->options.max_tokens),
                      "shorten the prompt or ask for fewer new tokens");
  }
  at::Tensor x = impl_->embed(tokens);
  const RopeTable table =
      rope_table(impl_->length, count, model.info.head_dim, model.info.rope_theta);
  for (int layer = 0; layer < model.info.num_layers; ++layer) {
    const LayerWeights& weights = model.layers[layer];
    at::Tensor attended =
        impl_->attention(layer, rms_norm(x, weights.attn_norm, model.rms_norm_eps), table, hook);
    if (layer + 1 == model.info.num_layers) {
      // Beyond the last attention only the last position matters, and only to the logits.
      if (!want_logits) break;
      x = x.narrow(0, count - 1, 1);
      attended = attended.narrow(0, count - 1, 1);
    }
    x.addmm_(attended, weights.o_proj.t());
    impl_->feed_forward(weights, x);
  }
  impl_->length += count;
  if (!want_logits) return {};
  return at::mv(model.output, rms_norm(x, model.output_norm, model.rms_norm_eps).squeeze(0));
}

}  // namespace kvloupe::capture
