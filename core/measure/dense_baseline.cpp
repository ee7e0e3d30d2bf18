#include "core/measure/dense_baseline.h"

#include "core/attention/attention.h"

#include <ATen/ATen.h>

#include <limits>

namespace kvloupe::measure {
namespace {

// Causal, and as far back as the window reaches.
at::Tensor visibility_mask(std::int64_t chunk_len, std::int64_t kv_len, std::int64_t window) {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  const std::int64_t past_len = kv_len - chunk_len;
  at::Tensor mask = at::full({chunk_len, kv_len}, kHidden).triu_(past_len + 1);
  if (window > 0)
    mask.masked_fill_(at::ones({chunk_len, kv_len}, at::kBool).tril_(past_len - window), kHidden);
  return mask;
}

}  // namespace

DenseBaseline::DenseBaseline(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const SoftmaxForm& softmax)
    : softmax_(softmax), num_q_heads_(q.size(0)), chunk_len_(q.size(1)), head_dim_(q.size(2)) {
  const std::int64_t group = q.size(0) / k.size(0);
  whole_k_ = k.contiguous();
  whole_v_ = v.contiguous();
  const std::int64_t hidden = softmax.first_visible(k.size(1) - chunk_len_);
  const std::int64_t kv_len = k.size(1) - hidden;
  q_ = q.contiguous().unsqueeze(0);
  k_ = whole_k_.narrow(1, hidden, kv_len).contiguous().unsqueeze(0);
  v_ = whole_v_.narrow(1, hidden, kv_len).contiguous().unsqueeze(0);
  expanded_k_ = group == 1 ? k_ : k_.repeat_interleave(group, 1);
  expanded_v_ = group == 1 ? v_ : v_.repeat_interleave(group, 1);
  folded_q_ = q_.reshape({1, k.size(0), group * chunk_len_, head_dim_});
  mask_ = visibility_mask(chunk_len_, kv_len, softmax.window);
  mask_ = mask_.to(q.options());
  folded_mask_ = mask_.repeat({group, 1});
  if (q.is_cuda() && is_plain() && softmax.window == 0)
    gpu_kernels_ = those_that_agree(
        gpu_kernels({q_, k_, v_, expanded_k_, expanded_v_, mask_, softmax.scale}), run_own());
}

bool DenseBaseline::is_plain() const {
  return softmax_.softcap <= 0 && softmax_.sink_logits.empty();
}

at::Tensor DenseBaseline::run_gqa() const {
  return at::scaled_dot_product_attention(q_, k_, v_, mask_, 0, false, softmax_.scale, true)
      .squeeze(0);
}

at::Tensor DenseBaseline::run_expanded() const {
  return at::scaled_dot_product_attention(q_, expanded_k_, expanded_v_, mask_, 0, false,
                                          softmax_.scale)
      .squeeze(0);
}

at::Tensor DenseBaseline::run_folded() const {
  return at::scaled_dot_product_attention(folded_q_, k_, v_, folded_mask_, 0, false, softmax_.scale)
      .reshape({num_q_heads_, chunk_len_, head_dim_});
}

at::Tensor DenseBaseline::run_own() const {
  return attention::dense_chunk_attention(q_[0], whole_k_, whole_v_, softmax_, false).output;
}

std::vector<TimedPart> DenseBaseline::parts() const {
  if (!is_plain()) return {{"kvloupe", [this] { run_own(); }}};
  std::vector<TimedPart> parts = {{"sdpa gqa", [this] { run_gqa(); }},
                                  {"sdpa expanded", [this] { run_expanded(); }},
                                  {"sdpa folded", [this] { run_folded(); }},
                                  {"kvloupe", [this] { run_own(); }}};
  for (const NamedAttention& kernel : gpu_kernels_)
    parts.push_back({kernel.name, [&kernel] { kernel.run(); }});
  return parts;
}

std::size_t fastest_of(const RoundTimes& times, std::size_t first, std::size_t count) {
  std::size_t best = first;
  for (std::size_t part = first + 1; part < first + count; ++part) {
    if (times.stats(part).median_ms < times.stats(best).median_ms) best = part;
  }
  return best;
}

}  // namespace kvloupe::measure
