// How a layer turns the products of its queries and keys into attention:
//   s[t,j] = scale q[t].k[j],  s = softcap tanh(s / softcap) where there is a softcap
//   p[t,j] = exp(s[t,j]) / (exp(z) + sum over the keys j that t sees of exp(s[t,j]))
// Query t sees the keys t - window + 1 .. t, all of 0 .. t without a window. z is the learned sink
// logit of the query head, a term without a key: its share goes to no key. (Windows as in Gemma and
// GPT-OSS, softcap as in Gemma 2, sinks as in GPT-OSS.)
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace kvloupe {

struct SoftmaxForm {
  double scale = 0;
  std::int64_t window = 0;         // keys that a query sees, its own included; 0: all
  double softcap = 0;              // 0: none
  std::vector<float> sink_logits;  // [num_q_heads]; empty: none

  SoftmaxForm() = default;
  SoftmaxForm(double plain_scale) : scale(plain_scale) {}
  SoftmaxForm(double scale_, std::int64_t window_, double softcap_, std::vector<float> sinks)
      : scale(scale_), window(window_), softcap(softcap_), sink_logits(std::move(sinks)) {}

  bool is_plain() const { return window == 0 && softcap == 0 && sink_logits.empty(); }
  bool operator==(const SoftmaxForm&) const = default;

  // The first key that the query at this position sees.
  std::int64_t first_visible(std::int64_t position) const {
    return window > 0 && position >= window ? position - window + 1 : 0;
  }
  // s of the product q.k.
  double logit(double product) const {
    const double s = scale * product;
    return softcap > 0 ? softcap * std::tanh(s / softcap) : s;
  }
  // The same for `count` query heads from `first` on.
  SoftmaxForm of_heads(std::int64_t first, std::int64_t count) const {
    SoftmaxForm part(scale, window, softcap, {});
    if (!sink_logits.empty())
      part.sink_logits.assign(sink_logits.begin() + first, sink_logits.begin() + first + count);
    return part;
  }
};

}  // namespace kvloupe
