#include "capture/run/dense_twin.h"

#include "core/base/error.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <utility>

namespace kvloupe::capture {
namespace {

// ||other - rows||_F / ||rows||_F, where they lie: fp64, no dimensions.
at::Tensor relative_distance(const at::Tensor& rows, const at::Tensor& other) {
  const c10::InferenceMode no_gradients;
  const auto norm_of = [](const at::Tensor& values) {
    return at::linalg_vector_norm(values, 2, std::nullopt, false, at::kDouble);
  };
  const at::Tensor distance = norm_of(other - rows);
  return at::where(distance == 0, distance, distance / norm_of(rows));
}

at::Tensor own_keys(const AttentionCall& call) {
  return call.k.narrow(1, call.past_len, call.k.size(1) - call.past_len);
}

}  // namespace

DenseTwin::Keeping::Keeping(std::vector<int> layers) {
  for (const int layer : layers) rows[layer] = {};
}

at::Tensor DenseTwin::Keeping::attend(const AttentionCall& call) {
  if (const auto kept = rows.find(call.layer); kept != rows.end())
    kept->second = {call.q, own_keys(call)};
  return dense_.attend(call);
}

DenseTwin::DenseTwin(std::shared_ptr<const LoadedModel> model, const DecoderOptions& options,
                     std::vector<int> layers, std::int64_t prompt_len)
    : decoder_(std::move(model), options), hook_(std::move(layers)), prompt_len_(prompt_len) {}

void DenseTwin::forward(std::span<const std::int32_t> tokens) {
  before_ = std::move(forecast_.last);
  forecast_ = {};
  forecast_.last = decoder_.forward(tokens, hook_, true, &forecast_.earlier);
  if (decoder_.length() == prompt_len_) after_prompt_ = forecast_.last;
}

void DenseTwin::compare(const AttentionCall& call) {
  const auto kept = hook_.rows.find(call.layer);
  if (kept == hook_.rows.end()) return;
  distance_[call.layer] = at::stack({relative_distance(kept->second.q, call.q),
                                     relative_distance(kept->second.k, own_keys(call))});
}

trace::DriftChunk DenseTwin::drift(const Decoder& decoder, const Forecast& closed_loop,
                                   std::span<const std::int32_t> tokens) {
  trace::DriftChunk drift;
  drift.dense_nll = losses(decoder_, forecast_, before_, tokens);
  Divergence next = divergence(decoder_, forecast_, decoder, closed_loop);
  drift.kl = std::move(next.kl);
  drift.agrees = std::move(next.agrees);
  std::vector<at::Tensor> distances;
  for (const auto& [layer, pair] : distance_) distances.push_back(pair);
  if (!distances.empty()) {
    const at::Tensor on_host = at::stack(distances).to(at::kCPU, at::kFloat);
    const auto of_layer = on_host.accessor<float, 2>();
    for (std::int64_t i = 0; i < on_host.size(0); ++i) {
      drift.q.push_back(of_layer[i][0]);
      drift.k.push_back(of_layer[i][1]);
    }
  }
  drift.dense_top = top_tokens(forecast_.last);
  return drift;
}

std::vector<std::int32_t> DenseTwin::answer(int max_new_tokens, const Tokenizer& tokenizer,
                                            const CancelToken& cancel) {
  std::vector<std::int32_t> answer;
  if (!after_prompt_.defined()) return answer;
  DenseAttention dense;
  decoder_.truncate(prompt_len_);
  at::Tensor logits = after_prompt_;
  while (static_cast<int>(answer.size()) < max_new_tokens) {
    if (cancel.cancelled()) return {};
    const std::int32_t token = greedy_token(logits);
    answer.push_back(token);
    if (tokenizer.ends_answer(token) || static_cast<int>(answer.size()) == max_new_tokens) break;
    logits = decoder_.forward(std::span(&token, 1), dense);
  }
  return answer;
}

}  // namespace kvloupe::capture
