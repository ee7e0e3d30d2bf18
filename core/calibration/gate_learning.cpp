#include "core/calibration/gate_learning.h"

#include "core/attention/attention.h"
#include "core/selection/lanes/rotary.h"

#include <ATen/ATen.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>

namespace kvloupe::calibration {
namespace {

// The attention of one query block of one head by key blocks, [N].
at::Tensor pooled_row(const at::Tensor& probabilities, std::int64_t num_blocks,
                      std::int64_t block_size, GateTarget target) {
  // [rows, N * block_size], zeros after the last key.
  const at::Tensor padded =
      at::constant_pad_nd(probabilities, {0, num_blocks * block_size - probabilities.size(1)}, 0);
  const at::Tensor blocks = padded.view({padded.size(0), num_blocks, block_size});
  const at::Tensor pooled =
      target == GateTarget::Max ? blocks.amax({0, 2}) : blocks.sum(at::IntArrayRef{0, 2});
  return pooled / pooled.sum();
}

at::Tensor pooled_attention(const selection::Cell& cell, std::int64_t block_size,
                            GateTarget target) {
  const std::int64_t length = cell.chunk_len;
  const std::int64_t blocks = (length + block_size - 1) / block_size;
  at::Tensor pooled = at::zeros({cell.num_q_heads(), blocks, blocks}, at::kFloat);
  for (std::int64_t head = 0; head < cell.num_q_heads(); ++head) {
    const at::Tensor keys = cell.k[head / cell.gqa_group_size()];
    const SoftmaxForm softmax = cell.softmax.of_heads(head, 1);
    for (std::int64_t i = 0; i < blocks; ++i) {
      const std::int64_t begin = i * block_size;
      const std::int64_t end = std::min(length, begin + block_size);
      const at::Tensor rows = cell.q[head].slice(0, begin, end), seen = keys.slice(0, 0, end);
      const at::Tensor lse =
          attention::chunk_mass(rows.unsqueeze(0), seen.unsqueeze(0), softmax).lse[0];
      const at::Tensor p = attention::attention_rows(rows, seen, softmax, begin, lse);
      pooled[head][i].slice(0, 0, i + 1).copy_(pooled_row(p, i + 1, block_size, target));
    }
  }
  return pooled;
}

// Rows [.., N, hidden] turned on.
at::Tensor turned(const at::Tensor& rows, const GateRotation& rotation) {
  if (!rotation.cos.defined()) return rows;
  const std::int64_t count = rows.size(1);
  const std::int64_t half = rows.size(2) / 2;
  const at::Tensor cos = rotation.cos.slice(0, 0, count);
  const at::Tensor sin = rotation.sin.slice(0, 0, count);
  const at::Tensor a = rows.slice(2, 0, half);
  const at::Tensor b = rows.slice(2, half);
  return at::cat({a * cos - b * sin, a * sin + b * cos}, 2);
}

double rate_at(int step, const GateFit& fit) {
  const int warm_up = std::max(1, fit.steps / 20);
  if (step <= warm_up) return fit.learning_rate * step / warm_up;
  const double done = static_cast<double>(step - warm_up) / std::max(1, fit.steps - warm_up);
  return fit.learning_rate * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

double mean_loss(const GateWeights& weights, const GateRotation& rotation,
                 const std::vector<GateExample>& examples) {
  const at::NoGradGuard value_alone;
  double sum = 0;
  for (const GateExample& example : examples)
    sum += gate_loss(weights, rotation, example).item<double>();
  return sum / static_cast<double>(examples.size());
}

// Root mean square of each input channel over the examples, [heads, channels, 1]; 1 where all are 0.
at::Tensor channel_sizes(const std::vector<GateExample>& examples, at::Tensor GateExample::*which) {
  at::Tensor sum;
  for (const GateExample& example : examples) {
    const at::Tensor squares = (example.*which).square().mean(1);
    sum = sum.defined() ? sum + squares : squares;
  }
  at::Tensor sizes = (sum / static_cast<double>(examples.size())).sqrt();
  sizes.masked_fill_(sizes == 0, 1.0);
  return sizes.unsqueeze(2);
}

std::vector<GateExample> scaled(const std::vector<GateExample>& examples, const at::Tensor& q_sizes,
                                const at::Tensor& k_sizes) {
  std::vector<GateExample> result = examples;
  for (GateExample& example : result) {
    example.queries = example.queries / q_sizes.transpose(1, 2);
    example.keys = example.keys / k_sizes.transpose(1, 2);
  }
  return result;
}

}  // namespace

GateExample gate_example(const selection::Cell& cell, const selection::GatePools& pools,
                         std::int64_t block_size, GateTarget target) {
  const std::int64_t blocks = (cell.chunk_len + block_size - 1) / block_size;
  GateExample example;
  example.queries = pools.queries(cell);
  example.keys = pools.keys(cell, 0, blocks);
  example.target = pooled_attention(cell, block_size, target);
  example.last_row = blocks;
  return example;
}

GateRotation gate_rotation(double theta, std::int64_t hidden, std::int64_t block_size,
                           std::int64_t num_blocks) {
  const selection::Rotary rotary(theta, hidden, trace::RopePairing::HalfSplit);
  GateRotation rotation = {at::empty({num_blocks, hidden / 2}, at::kFloat),
                           at::empty({num_blocks, hidden / 2}, at::kFloat)};
  for (std::int64_t block = 0; block < num_blocks; ++block) {
    const auto turn = rotary.turn(static_cast<double>(block * block_size));
    std::copy(turn.cos.begin(), turn.cos.end(), rotation.cos[block].mutable_data_ptr<float>());
    std::copy(turn.sin.begin(), turn.sin.end(), rotation.sin[block].mutable_data_ptr<float>());
  }
  return rotation;
}

at::Tensor gate_loss(const GateWeights& weights, const GateRotation& rotation,
                     const GateExample& example) {
  const std::int64_t heads = example.queries.size(0);
  const std::int64_t kv_heads = example.keys.size(0);
  const std::int64_t blocks = example.queries.size(1);
  const std::int64_t hidden = weights.q.size(2);
  const at::Tensor x = turned(example.queries.bmm(weights.q), rotation);
  const at::Tensor y = turned(example.keys.bmm(weights.k), rotation);
  // The query heads of a group stand together: [kv_heads, group * N, hidden].
  const at::Tensor grouped = x.reshape({kv_heads, -1, hidden});
  const at::Tensor future = at::ones({blocks, blocks}, at::kBool).triu(1);
  const at::Tensor logits =
      (grouped.bmm(y.transpose(1, 2)) / std::sqrt(static_cast<double>(hidden)))
          .view({heads, blocks, blocks})
          .masked_fill(future, -std::numeric_limits<float>::infinity());
  const auto rows = [&](const at::Tensor& tensor) {
    return tensor.slice(1, example.first_row, example.last_row);
  };
  const at::Tensor target = rows(example.target);
  // 0 log 0 = 0, and no score counts where the target is 0.
  const at::Tensor log_scores = rows(logits).log_softmax(2).masked_fill(target == 0, 0.0);
  const at::Tensor terms = at::xlogy(target, target) - target * log_scores;
  return terms.sum(at::kDouble) / static_cast<double>(target.size(0) * target.size(1));
}

GateWeights initial_gate(std::int64_t num_q_heads, std::int64_t num_kv_heads, std::int64_t head_dim,
                         std::int64_t hidden, double softmax_scale, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const bool aligned = hidden % head_dim == 0;
  const double noise = (aligned ? 0.02 : 1.0) / std::sqrt(static_cast<double>(head_dim));
  std::normal_distribution<float> normal(0, static_cast<float>(noise));
  GateWeights weights = {at::empty({num_q_heads, head_dim, hidden}, at::kFloat),
                         at::empty({num_kv_heads, 3 * head_dim, hidden}, at::kFloat)};
  for (at::Tensor* tensor : {&weights.q, &weights.k}) {
    float* values = tensor->mutable_data_ptr<float>();
    std::generate_n(values, tensor->numel(), [&] { return normal(random); });
  }
  if (!aligned) return weights;
  // Pair i of the head turns like pair i * hidden / head_dim of the gate.
  const auto size =
      static_cast<float>(std::sqrt(softmax_scale * std::sqrt(static_cast<double>(hidden))));
  const std::int64_t step = hidden / head_dim;
  for (std::int64_t channel = 0; channel < head_dim; ++channel) {
    const std::int64_t half = head_dim / 2;
    const std::int64_t slot =
        channel < half ? channel * step : hidden / 2 + (channel - half) * step;
    weights.q.select(1, channel).select(1, slot).add_(size);
    weights.k.select(1, 2 * head_dim + channel).select(1, slot).add_(size);
  }
  return weights;
}

std::vector<GateLoss> fit_gate(GateWeights& weights, const GateRotation& rotation,
                               const std::vector<GateExample>& train,
                               const std::vector<GateExample>& held_out, const GateFit& fit,
                               const CancelToken& cancel) {
  const at::Tensor q_sizes = channel_sizes(train, &GateExample::queries);
  const at::Tensor k_sizes = channel_sizes(train, &GateExample::keys);
  const std::vector<GateExample> inputs = scaled(train, q_sizes, k_sizes);
  const std::vector<GateExample> others = scaled(held_out, q_sizes, k_sizes);
  weights = {(weights.q * q_sizes).requires_grad_(), (weights.k * k_sizes).requires_grad_()};
  torch::optim::AdamW optimizer({weights.q, weights.k},
                                torch::optim::AdamWOptions().weight_decay(fit.weight_decay));
  std::vector<GateLoss> losses;
  const auto note = [&](int step) {
    losses.push_back(
        {step, mean_loss(weights, rotation, inputs), mean_loss(weights, rotation, others)});
  };
  note(0);
  const int every = std::max(1, fit.steps / 10);
  for (int step = 1; step <= fit.steps; ++step) {
    cancel.throw_if_cancelled();
    optimizer.zero_grad();
    for (const GateExample& example : inputs)
      (gate_loss(weights, rotation, example) / static_cast<double>(inputs.size())).backward();
    optimizer.param_groups().front().options().set_lr(rate_at(step, fit));
    optimizer.step();
    if (step % every == 0 || step == fit.steps) note(step);
  }
  weights = {weights.q.detach() / q_sizes, weights.k.detach() / k_sizes};
  return losses;
}

}  // namespace kvloupe::calibration
