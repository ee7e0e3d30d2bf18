// The forward pass: norm, fused projections, RoPE, the hook's attention, feed-forward; layer by layer.
#include "capture/model/decoder.h"

#include "capture/model/decoder_kernels.h"
#include "capture/model/feed_forward.h"
#include "capture/model/linear.h"
#include "capture/model/model.h"
#include "core/attention/attention.h"
#include "core/base/error.h"

#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvloupe::capture {
at::Tensor DenseAttention::attend(const AttentionCall& call) {
  return attention::dense_chunk_attention(call.q, call.k, call.v, call.softmax, false).output;
}

struct Decoder::Impl {
  std::shared_ptr<const LoadedModel> model;
  DecoderOptions options;
  std::int64_t length = 0;
  std::vector<at::Tensor> k_cache, v_cache;  // per layer [num_kv_heads, max_tokens, head_dim]
  std::vector<RopeFrequencies> ropes;        // as the model's

  at::Tensor embed(std::span<const std::int32_t> tokens) const;
  // Query, key and value heads of a layer, [num_q_heads + 2 num_kv_heads, m, head_dim].
  at::Tensor heads_of(int layer, const at::Tensor& normed,
                      const std::vector<RopeTable>& tables) const;
  at::Tensor attention(int layer, const at::Tensor& normed, const std::vector<RopeTable>& tables,
                       AttentionHook& hook);
  // Adds to x what a layer's feed-forward makes of it, or its attention of `attended`.
  void add_feed_forward(const LayerWeights& weights, at::Tensor& x) const;
  void add_attention(const LayerWeights& weights, const at::Tensor& attended, at::Tensor& x) const;
  // What follows the attention of a layer, for these rows.
  at::Tensor after_attention(const LayerWeights& weights, const at::Tensor& x,
                             const at::Tensor& attended) const;
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
      cache->push_back(at::empty({info.num_kv_heads, options.max_tokens, info.head_dim},
                                 at::dtype(at::kFloat).device(model->device())));
    }
  }
  for (const RopeForm& form : model->ropes)
    impl_->ropes.push_back(rope_frequencies(form, info.head_dim));
  impl_->model = std::move(model);
  impl_->options = options;
}

Decoder::~Decoder() = default;

std::int64_t Decoder::length() const { return impl_->length; }

void Decoder::truncate(std::int64_t length) {
  KVLOUPE_CHECK(length >= 0 && length <= impl_->length);
  impl_->length = length;
}

void Decoder::restore(
    std::int64_t length,
    const std::function<void(int layer, const at::Tensor& k, const at::Tensor& v)>& fill) {
  KVLOUPE_CHECK(length >= 0 && length <= impl_->options.max_tokens);
  for (std::size_t layer = 0; layer < impl_->k_cache.size(); ++layer)
    fill(static_cast<int>(layer), impl_->k_cache[layer].narrow(1, 0, length),
         impl_->v_cache[layer].narrow(1, 0, length));
  impl_->length = length;
}

at::Tensor Decoder::Impl::embed(std::span<const std::int32_t> tokens) const {
  const at::Tensor ids = at::empty({static_cast<std::int64_t>(tokens.size())}, at::kInt);
  std::int32_t* id = ids.data_ptr<std::int32_t>();
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= model->vocab_size) {
      throw input_error(fmt::format("cannot run the token {}", token),
                        fmt::format("the vocabulary has {} tokens", model->vocab_size),
                        "use the tokenizer of this model");
    }
    *id++ = token;
  }
  at::Tensor x = model->token_embedding.index_select(0, ids.to(model->device())).to(at::kFloat);
  if (model->embedding_scale != 1) x.mul_(model->embedding_scale);
  return x;
}

at::Tensor Decoder::Impl::heads_of(int layer, const at::Tensor& normed,
                                   const std::vector<RopeTable>& tables) const {
  const trace::ModelInfo& info = model->info;
  const LayerWeights& weights = model->layers[layer];
  const std::int64_t num_q = info.num_q_heads, num_kv = info.num_kv_heads;
  const at::Tensor projected = project(normed, weights.qkv_proj, weights.qkv_bias);
  if (model->qk_norm != QkNorm::None) {
    const bool each = model->qk_norm == QkNorm::EachHead;
    const double eps = model->rms_norm_eps;
    rms_norm_columns(projected, 0, each ? num_q : 1, weights.q_norm, eps);
    rms_norm_columns(projected, num_q * info.head_dim, each ? num_kv : 1, weights.k_norm, eps);
  }
  const int rope = model->rope_of_layer[static_cast<std::size_t>(layer)];
  return split_and_rotate(projected, num_q + 2 * num_kv, rope < 0 ? 0 : num_q + num_kv,
                          rope < 0 ? RopeTable{} : tables[static_cast<std::size_t>(rope)],
                          info.rope_pairing);
}

at::Tensor Decoder::Impl::attention(int layer, const at::Tensor& normed,
                                    const std::vector<RopeTable>& tables, AttentionHook& hook) {
  const trace::ModelInfo& info = model->info;
  const std::int64_t num_q = info.num_q_heads;
  const std::int64_t num_kv = info.num_kv_heads;
  const std::int64_t rows = normed.size(0);
  const at::Tensor heads = heads_of(layer, normed, tables);
  AttentionCall call;
  call.layer = layer;
  call.past_len = length;
  call.softmax = info.softmax_of(layer);
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

void Decoder::Impl::add_attention(const LayerWeights& weights, const at::Tensor& attended,
                                  at::Tensor& x) const {
  const at::Tensor added = project(attended, weights.o_proj, weights.o_bias);
  x.add_(model->norms_after ? rms_norm(added, weights.after_attn_norm, model->rms_norm_eps)
                            : added);
}

void Decoder::Impl::add_feed_forward(const LayerWeights& weights, at::Tensor& x) const {
  const at::Tensor added =
      feed_forward(rms_norm(x, weights.ffn_norm, model->rms_norm_eps), weights, *model);
  x.add_(model->norms_after ? rms_norm(added, weights.after_ffn_norm, model->rms_norm_eps) : added);
}

at::Tensor Decoder::Impl::after_attention(const LayerWeights& weights, const at::Tensor& x,
                                          const at::Tensor& attended) const {
  at::Tensor result = x.clone();
  add_attention(weights, attended, result);
  add_feed_forward(weights, result);
  return result;
}

at::Tensor Decoder::logits_of(const at::Tensor& rows) const {
  const c10::InferenceMode no_gradients;
  return project_unrounded(rows, impl_->model->output);
}

at::Tensor Decoder::forward(std::span<const std::int32_t> tokens, AttentionHook& hook,
                            bool want_logits, at::Tensor* earlier) {
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
  std::vector<RopeTable> tables;
  for (const RopeFrequencies& rope : impl_->ropes) {
    const RopeTable table = rope_table(impl_->length, count, rope);
    tables.push_back({table.cos.to(model.device()), table.sin.to(model.device())});
  }
  at::Tensor attended;
  for (int layer = 0; layer < model.info.num_layers; ++layer) {
    const LayerWeights& weights = model.layers[layer];
    attended =
        impl_->attention(layer, rms_norm(x, weights.attn_norm, model.rms_norm_eps), tables, hook);
    if (layer + 1 == model.info.num_layers) break;
    impl_->add_attention(weights, attended, x);
    impl_->add_feed_forward(weights, x);
  }
  impl_->length += count;
  // Beyond the last attention only what the logits need is computed: that of the last position on
  // its own, so that it is the same to the bit whether or not the others are wanted.
  const LayerWeights& last = model.layers.back();
  if (earlier != nullptr) {
    *earlier = x.narrow(0, 0, count - 1);
    if (count > 1) {
      const at::Tensor others =
          impl_->after_attention(last, *earlier, attended.narrow(0, 0, count - 1));
      *earlier = rms_norm(others, model.output_norm, model.rms_norm_eps);
    }
  }
  if (!want_logits) return {};
  x = impl_->after_attention(last, x.narrow(0, count - 1, 1), attended.narrow(0, count - 1, 1));
  const at::Tensor normed = rms_norm(x, model.output_norm, model.rms_norm_eps);
  if (model.output.scalar_type() == at::kFloat) return at::mv(model.output, normed.squeeze(0));
  return project_unrounded(normed, model.output).squeeze(0);
}

}  // namespace kvloupe::capture
