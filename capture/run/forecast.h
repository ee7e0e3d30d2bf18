// What comes next by a model's logits: losses of a text, the most probable tokens, and the distance
// of two models' distributions. Logits may lie on a device, answers are the host's.
#pragma once

#include "capture/model/decoder.h"
#include "core/trace/next_tokens.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe::capture {

// Of one chunk of m tokens.
struct Forecast {
  at::Tensor
      earlier;      // [m-1, hidden_size]: what the logits after all tokens but the last are made of
  at::Tensor last;  // [vocab_size] the logits after the last
};

// -log P of each token of a chunk, in nats and never below zero. `before` [vocab_size] are the logits
// after the chunk before; undefined where the text begins: infinity.
std::vector<float> losses(const Decoder& decoder, const Forecast& forecast,
                          const at::Tensor& before, std::span<const std::int32_t> tokens);

// The kTopTokens of largest logit, equal ones by id; of undefined logits none.
trace::TopTokens top_tokens(const at::Tensor& logits);
// The first of largest logit.
std::int32_t greedy_token(const at::Tensor& logits);

// How likely a text is.
struct Likelihood {
  double log_prob = 0;  // in nats, of all tokens together
  bool greedy = true;   // each was the most probable one
};
// Adds `next`: the tokens after each of a chunk's rows from `first` to its last.
void add_likelihood(const Decoder& decoder, const Forecast& forecast, std::int64_t first,
                    std::span<const std::int32_t> next, Likelihood& likelihood);

struct Divergence {
  std::vector<float> kl;             // [m] KL(p || q), in nats
  std::vector<std::uint8_t> agrees;  // [m] 1 where both have the same most probable token
};
// Of the next tokens after each token of a chunk.
Divergence divergence(const Decoder& p_decoder, const Forecast& p, const Decoder& q_decoder,
                      const Forecast& q);

}  // namespace kvloupe::capture
