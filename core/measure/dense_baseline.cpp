#include "core/measure/dense_baseline.h"

#include "core/attention/attention.h"
#include "core/base/error.h"
#include "core/measure/gpu_kernels.h"

#include <ATen/ATen.h>

#include <limits>
#include <utility>

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

// Torch's three, whatever the softmax.
std::vector<DenseForm> sdpa_forms(const ChunkInputs& chunk) {
  const at::Tensor q = chunk.q, k = chunk.k, v = chunk.v;
  const std::int64_t num_q_heads = q.size(1), chunk_len = q.size(2), head_dim = q.size(3);
  const std::int64_t group = num_q_heads / k.size(1);
  const double scale = chunk.scale;
  return {
      {"sdpa gqa",
       [=, make_mask = chunk.mask]() -> Attend {
         return [=, mask = make_mask()] {
           return at::scaled_dot_product_attention(q, k, v, mask, 0, false, scale, true).squeeze(0);
         };
       }},
      {"sdpa expanded",
       [=]() -> Attend {
         return [=, each_k = chunk.expanded_k(), each_v = chunk.expanded_v(), mask = chunk.mask()] {
           return at::scaled_dot_product_attention(q, each_k, each_v, mask, 0, false, scale)
               .squeeze(0);
         };
       }},
      {"sdpa folded", [=, make_mask = chunk.mask]() -> Attend {
         const at::Tensor folded = q.reshape({1, k.size(1), group * chunk_len, head_dim});
         return [=, mask = make_mask().repeat({group, 1})] {
           return at::scaled_dot_product_attention(folded, k, v, mask, 0, false, scale)
               .reshape({num_q_heads, chunk_len, head_dim});
         };
       }}};
}

// All that there are, each with why it is none where that is known beforehand.
std::vector<DenseForm> forms_of(const at::Tensor& whole_q, const at::Tensor& whole_k,
                                const at::Tensor& whole_v, const SoftmaxForm& softmax) {
  const at::Tensor q = whole_q.contiguous(), k = whole_k.contiguous(), v = whole_v.contiguous();
  const std::int64_t chunk_len = q.size(1), group = q.size(0) / k.size(0);
  const std::int64_t hidden = softmax.first_visible(k.size(1) - chunk_len);
  const std::int64_t kv_len = k.size(1) - hidden;
  const auto seen = [&](const at::Tensor& whole) {
    return whole.narrow(1, hidden, kv_len).contiguous().unsqueeze(0);
  };
  const auto expanded = [group](const at::Tensor& shared) {
    return made_once([=] { return group == 1 ? shared : shared.repeat_interleave(group, 1); });
  };
  ChunkInputs chunk{q.unsqueeze(0), seen(k), seen(v), {}, {}, {}, softmax.scale};
  chunk.expanded_k = expanded(chunk.k);
  chunk.expanded_v = expanded(chunk.v);
  chunk.mask = made_once([=, window = softmax.window, options = q.options()] {
    return visibility_mask(chunk_len, kv_len, window).to(options);
  });

  std::vector<DenseForm> forms = sdpa_forms(chunk);
  forms.push_back({kOwnForm, [=]() -> Attend {
                     return [=] {
                       return attention::dense_chunk_attention(q, k, v, softmax, false).output;
                     };
                   }});
  if (q.is_cuda())
    for (DenseForm& form : gpu_kernels(chunk)) {
      if (softmax.window > 0) form.why_not = "it is not asked where a window hides keys";
      forms.push_back(std::move(form));
    }
  if (softmax.softcap > 0 || !softmax.sink_logits.empty())
    for (DenseForm& form : forms)
      if (form.name != kOwnForm) form.why_not = "it knows no softcap and no sink";
  return forms;
}

}  // namespace

DenseBaseline::DenseBaseline(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const SoftmaxForm& softmax) {
  // What those of the processor give the tests compare.
  const at::Tensor expected = q.is_cpu() ? at::Tensor() : plain_attention(q, k, v, softmax);
  chosen_ = choose_forms(forms_of(q, k, v, softmax), expected);
  if (!chosen_.forms.empty()) return;
  std::string why = "each form of it is left out";
  for (const DenseLeftOut& one : chosen_.left_out) why += " (" + one.form + ": " + one.why + ")";
  throw input_error("dense attention cannot be timed", why,
                    "time it after fewer keys, or on --device cpu");
}

std::vector<TimedPart> DenseBaseline::parts() const {
  std::vector<TimedPart> parts;
  for (const NamedAttention& form : chosen_.forms)
    parts.push_back({form.name, [run = form.run] { run(); }});
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
