// How far a closed loop went from the dense model on the same tokens (FORMAT.md, section 4a): losses
// and next tokens by position, queries and keys by layer and chunk, and both answers.
#pragma once

#include "core/analysis/matrix.h"
#include "core/trace/trace_reader.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::analysis {

// One sampled token of the closed loop or of the dense model left alone: raw bytes.
struct AnswerToken {
  std::string text;
  std::int32_t id = 0;
};

inline constexpr std::int64_t kMeanOf = 32;  // tokens of a running mean

struct DecodeDrift {
  // -log P of each token given those before it, in nats; infinity at 0. By the model as it ran, and by
  // the dense one on the same tokens.
  std::vector<float> nll, dense_nll;  // [T]; dense_nll empty without a closed loop
  std::vector<float> kl;              // [T] KL(dense || closed loop) of the token after each, nat
  std::vector<std::uint8_t> agrees;   // [T] 1: the same token most probable
  // Their running means over kMeanOf tokens.
  std::vector<double> nll_mean, dense_nll_mean, kl_mean;
  std::vector<double> excess_mean;  // nll_mean - dense_nll_mean
  Matrix q, k;                      // [recorded layers, chunks] relative distance

  // The position after which the first token was sampled; none where nothing was.
  std::optional<std::int32_t> first_sampled;
  // The first sampled step, from 0, at which the models want different tokens; up to it both
  // answers are the same.
  std::optional<std::int64_t> first_divergent_step;
  // Of the closed loop and of the dense model. The last token of the closed loop was not fed and has no
  // text of its own: it is there where the dense answer has the same token.
  std::vector<AnswerToken> answer, dense_answer;

  bool against_dense() const { return !kl.empty(); }
  // Means over all tokens but the first; NaN where there are none.
  double mean_nll() const;
  double mean_dense_nll() const;
  // Means over the positions from `begin` on.
  double mean_kl(std::int32_t begin) const;
  double agreement(std::int32_t begin) const;
};

// Throws Error{Input} where the trace holds no losses.
DecodeDrift decode_drift(const trace::TraceReader& reader);

// The mean of the finite values among the nearest `window` before and at each position, NaN where there
// are none.
std::vector<double> running_mean(const std::vector<float>& values, std::int64_t window);

}  // namespace kvloupe::analysis
