#include "capture/model/feed_forward.h"

#include "capture/model/linear.h"

#include <ATen/Functions.h>

#include <cstdint>

namespace kvloupe::capture {
namespace {

at::Tensor activated(const at::Tensor& gate, const at::Tensor& up, Activation activation) {
  switch (activation) {
    case Activation::Silu: return at::silu(gate).mul_(up);
    case Activation::GeluTanh: return at::gelu(gate, "tanh").mul_(up);
    case Activation::ClampedSwish: {
      constexpr double kLimit = 7, kSlope = 1.702;
      const at::Tensor low = gate.clamp_max(kLimit);
      return (low * at::sigmoid(low * kSlope)).mul_(up.clamp(-kLimit, kLimit).add_(1));
    }
  }
  return {};
}

at::Tensor dense(const at::Tensor& x, const FeedForward& weights, const ModelConfig& model) {
  const at::Tensor gate_up = project(x, weights.gate_up_proj, weights.gate_up_bias);
  return project(activated(gate_up.narrow(1, 0, model.ffn_size),
                           gate_up.narrow(1, model.ffn_size, model.ffn_size), model.activation),
                 weights.down_proj, weights.down_bias);
}

struct Routed {
  at::Tensor experts;  // int64 [m, used]
  at::Tensor shares;   // fp32 [m, used]
};

Routed route(const at::Tensor& x, const LayerWeights& weights, const ExpertForm& form) {
  const at::Tensor logits = project(x, weights.router, weights.router_bias);
  const auto [best, experts] =
      at::topk(form.softmax_over_all ? at::softmax(logits, 1) : logits, form.used, 1);
  at::Tensor shares = form.softmax_over_all ? best : at::softmax(best, 1);
  if (form.renormalised) shares = shares / shares.sum(1, true);
  return {experts, shares};
}

}  // namespace

at::Tensor feed_forward(const at::Tensor& x, const LayerWeights& weights,
                        const ModelConfig& model) {
  if (weights.experts.empty()) return dense(x, weights.ffn, model);
  const Routed routed = route(x, weights, model.experts);
  at::Tensor out = at::zeros_like(x);
  for (std::size_t expert = 0; expert < weights.experts.size(); ++expert) {
    // Its tokens, and which of their choices it is.
    const at::Tensor chosen = at::nonzero(routed.experts == static_cast<std::int64_t>(expert));
    if (chosen.size(0) == 0) continue;
    const at::Tensor tokens = chosen.select(1, 0), slots = chosen.select(1, 1);
    const at::Tensor shares = routed.shares.index({tokens, slots}).unsqueeze(1);
    out.index_add_(0, tokens,
                   dense(x.index_select(0, tokens), weights.experts[expert], model) * shares);
  }
  return out;
}

}  // namespace kvloupe::capture
