// A decoder-only transformer in libtorch, as its description says (model_config.h), with a hook where
// attention happens: chunked prefill and decode over a head-major KV cache. What the hook sees is what
// a trace stores.
#pragma once

#include "core/base/cancel.h"
#include "core/base/softmax_form.h"
#include "core/trace/trace_types.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace kvloupe::capture {

struct LoadedModel;  // model.h: configuration, weights, tokenizer

// One layer's attention of one chunk. q [num_q_heads, m, head_dim]; k, v [num_kv_heads, T,
// head_dim] views of the cache (contiguous inside a head), fp32, after QK-norm and RoPE; rounded to
// half precision and widened again when the decoder was made with round_to_half. All tensors are on
// the model's device.
struct AttentionCall {
  int layer = 0;
  std::int64_t past_len = 0;  // P; T = P + m
  SoftmaxForm softmax;
  at::Tensor q, k, v;
  // The chunk's own rows as IEEE half, [heads, m, head_dim] contiguous; undefined unless the
  // decoder was made with round_to_half. Never written to again, so that a hook may keep them.
  at::Tensor q_half, k_half, v_half;
};

// Decides what attention computes. Layers come in ascending order inside a chunk.
class AttentionHook {
 public:
  virtual ~AttentionHook() = default;
  // Returns the attention output [num_q_heads, m, head_dim].
  virtual at::Tensor attend(const AttentionCall& call) = 0;
};

// Plain dense attention; nothing is recorded.
class DenseAttention final : public AttentionHook {
 public:
  at::Tensor attend(const AttentionCall& call) override;
};

struct DecoderOptions {
  std::int64_t max_tokens = 0;  // capacity of the KV cache, at most the model's context
  bool round_to_half = false;   // q, k, v take the values that an f16 trace holds
};

// Runs on the device where the model's weights are; so are the logits.
class Decoder {
 public:
  Decoder(std::shared_ptr<const LoadedModel> model, const DecoderOptions& options);
  ~Decoder();

  // Runs the next tokens (a prefill chunk, or one decoded token) through all layers. Returns the
  // logits of the last position, fp32 [vocab_size]; without want_logits, which saves the time that
  // they take, an undefined tensor. Throws Error{Input} for a token outside the vocabulary and for
  // tokens beyond max_tokens.
  // `earlier`, if given, becomes what the logits of the positions before the last are made of,
  // [tokens.size() - 1, hidden_size], for logits_of(). Asking for it does not change the logits.
  at::Tensor forward(std::span<const std::int32_t> tokens, AttentionHook& hook,
                     bool want_logits = true, at::Tensor* earlier = nullptr);
  // [rows, vocab_size] of some rows of `earlier`.
  at::Tensor logits_of(const at::Tensor& rows) const;
  std::int64_t length() const;  // tokens in the cache
  // Forgets all but the first `length` tokens.
  void truncate(std::int64_t length);
  // Takes `length` tokens for run, with the keys and values that `fill` writes to the cache of each
  // layer, [num_kv_heads, length, head_dim].
  void restore(
      std::int64_t length,
      const std::function<void(int layer, const at::Tensor& k, const at::Tensor& v)>& fill);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvloupe::capture
