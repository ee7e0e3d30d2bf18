// The training of one layer of SeerAttention's gate (core/selection/blocks/gate_file.h): its examples, the
// distance of its scores from the pooled attention of the dense model, and the descent.
// Private to core/calibration: needs Torch.
#pragma once

#include "core/base/cancel.h"
#include "core/selection/blocks/gate.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace kvloupe::calibration {

// How the attention of a block pair is made from that of its tokens.
enum class GateTarget {
  Max,  // its largest entry (SeerAttention)
  Sum   // all of it
};

// What one text shows of one layer, in N blocks.
struct GateExample {
  at::Tensor queries;  // [num_q_heads, N, head_dim] pooled, before the rotary embedding
  at::Tensor keys;     // [num_kv_heads, N, 3 * head_dim]
  at::Tensor target;   // [num_q_heads, N, N] rows sum to 1, 0 above the diagonal
  std::int64_t first_row = 0, last_row = 0;  // query blocks that count
};

// `cell` holds the whole text: no past.
GateExample gate_example(const selection::Cell& cell, const selection::GatePools& pools,
                         std::int64_t block_size, GateTarget target);

struct GateWeights {
  at::Tensor q;  // [num_q_heads, head_dim, hidden]
  at::Tensor k;  // [num_kv_heads, 3 * head_dim, hidden]
};

// What turns a layer's rows of block J on by J block_size positions; null without an embedding.
struct GateRotation {
  at::Tensor cos, sin;  // [N, hidden / 2], N at least that of every example
};
GateRotation gate_rotation(double theta, std::int64_t hidden, std::int64_t block_size,
                           std::int64_t num_blocks);

// Mean over the example's heads and rows of KL(target || gate), a double; autograd follows it.
at::Tensor gate_loss(const GateWeights& weights, const GateRotation& rotation,
                     const GateExample& example);

// Weights whose scores are the scaled products of mean queries and mean keys, with a little noise
// from `seed`: training begins at what pooling alone tells. Where hidden is no multiple of head_dim
// there is no such layout of the channels, and all is noise.
GateWeights initial_gate(std::int64_t num_q_heads, std::int64_t num_kv_heads, std::int64_t head_dim,
                         std::int64_t hidden, double softmax_scale, std::uint64_t seed);

struct GateFit {
  int steps = 0;
  double learning_rate = 0;
  double weight_decay = 0;
};
struct GateLoss {
  int step = 0;
  double train = 0, held_out = 0;
};

// AdamW with a short warm-up and a cosine to zero, every example in every step. Input channels are
// brought to one size while it lasts. Returns the losses at some steps, the first and last among them.
std::vector<GateLoss> fit_gate(GateWeights& weights, const GateRotation& rotation,
                               const std::vector<GateExample>& train,
                               const std::vector<GateExample>& held_out, const GateFit& fit,
                               const CancelToken& cancel);

}  // namespace kvloupe::calibration
