// What a model predicted, beside what it attended to: the next tokens that it found most
// probable where one was sampled, and how far a closed loop drifted from the dense model on the
// same tokens (FORMAT.md, section 4a).
#pragma once

#include "core/trace/trace_types.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::trace {

// As many next tokens as a trace keeps of one distribution.
inline constexpr int kTopTokens = 32;

// The most probable next tokens after a chunk, falling. A vocabulary of fewer tokens is filled up
// with id -1 and a log-probability of minus infinity, a chunk after which nothing was sampled is all
// of these.
struct TopTokens {
  std::vector<std::int32_t> ids;  // [kTopTokens]
  std::vector<float> log_probs;   // [kTopTokens] nat
};

// One chunk of m tokens of a closed loop against the dense model fed the same tokens. "Dense" has
// its own keys and values, so what the closed loop lost before counts, too.
struct DriftChunk {
  std::vector<float>
      dense_nll;          // [m] -log P of each token by the dense model; infinity for token 0
  std::vector<float> kl;  // [m] KL(dense || closed loop) of the next token after each, nat
  std::vector<std::uint8_t> agrees;  // [m] 1 where both find the same next token most probable
  std::vector<float> q,
      k;                // [recorded layers] ||closed - dense||_F / ||dense||_F of the chunk's rows
  TopTokens dense_top;  // only where capture samples tokens at all
};

// All chunks of a trace.
struct Drift {
  std::vector<float> dense_nll, kl;  // [T]
  std::vector<std::uint8_t> agrees;  // [T]
  int num_layers = 0;                // recorded
  std::vector<float> q, k;           // [C, num_layers]
  TopTokens dense_top;               // [C, kTopTokens], or empty
  // What the dense model samples when it is left alone, and the raw bytes of each token.
  std::vector<std::int32_t> dense_answer;
  std::vector<std::string> dense_texts;
};

// What belongs to one chunk.
TopTokens top_of(const TopTokens& all, int chunk_idx);

}  // namespace kvloupe::trace
