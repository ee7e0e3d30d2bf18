#include "core/measure/dense_baseline.h"

#include "core/attention/attention.h"

#include <ATen/ATen.h>

#include <limits>

namespace kvloupe::measure {
namespace {

at::Tensor causal_mask(std::int64_t chunk_len, std::int64_t kv_len) {
  at::Tensor mask = at::full({chunk_len, kv_len}, -std::numeric_limits<float>::infinity());
  return mask.triu_(kv_len - chunk_len + 1);
}

}  // namespace

DenseBaseline::DenseBaseline(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             double scale)
    : scale_(scale), num_q_heads_(q.size(0)), chunk_len_(q.size(1)), head_dim_(q.size(2)) {
  const std::int64_t group = q.size(0) / k.size(0);
  q_ = q.contiguous().unsqueeze(0);
  k_ = k.contiguous().unsqueeze(0);
  v_ = v.contiguous().unsqueeze(0);
  expanded_k_ = group == 1 ? k_ : k_.repeat_interleave(group, 1);
  expanded_v_ = group == 1 ? v_ : v_.repeat_interleave(group, 1);
  folded_q_ = q_.reshape({1, k.size(0), group * chunk_len_, head_dim_});
  mask_ = causal_mask(chunk_len_, k.size(1));
  folded_mask_ = mask_.repeat({group, 1});
}

at::Tensor DenseBaseline::run_gqa() const {
  return at::scaled_dot_product_attention(q_, k_, v_, mask_, 0, false, scale_, true).squeeze(0);
}

at::Tensor DenseBaseline::run_expanded() const {
  return at::scaled_dot_product_attention(q_, expanded_k_, expanded_v_, mask_, 0, false, scale_)
      .squeeze(0);
}

at::Tensor DenseBaseline::run_folded() const {
  return at::scaled_dot_product_attention(folded_q_, k_, v_, folded_mask_, 0, false, scale_)
      .reshape({num_q_heads_, chunk_len_, head_dim_});
}

at::Tensor DenseBaseline::run_own() const {
  return attention::dense_chunk_attention(q_[0], k_[0], v_[0], scale_, false).output;
}

std::vector<TimedPart> DenseBaseline::parts() const {
  return {{"sdpa gqa", [this] { run_gqa(); }},
          {"sdpa expanded", [this] { run_expanded(); }},
          {"sdpa folded", [this] { run_folded(); }},
          {"kvloupe", [this] { run_own(); }}};
}

std::size_t fastest_of(const RoundTimes& times, std::size_t first, std::size_t count) {
  std::size_t best = first;
  for (std::size_t part = first + 1; part < first + count; ++part) {
    if (times.stats(part).median_ms < times.stats(best).median_ms) best = part;
  }
  return best;
}

}  // namespace kvloupe::measure
