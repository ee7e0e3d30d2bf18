// The rotary position embedding (RoFormer, arXiv 2104.09864, eq. 34): at position p the channel pair
// i of a head is turned by the angle p * theta^(-2i/dim). Angles in fp64.
#pragma once

#include "core/selection/lanes/rotary_shape.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvloupe::selection {

class Rotary {
 public:
  // `dim` is even.
  Rotary(double theta, std::int64_t dim, trace::RopePairing pairing);

  // rows fp32 [N, n, dim] on any device, row i turned on by positions[i]; negative: back.
  at::Tensor turned(const at::Tensor& rows, std::span<const double> positions) const;

  // Of every channel pair, at so many positions.
  struct Turn {
    std::vector<double> cos, sin;  // [dim / 2]
  };
  Turn turn(double positions) const;

 private:
  bool interleaved_;
  std::vector<double> frequencies_;  // [dim / 2]
};

// Queries and keys of a model as they were before the embedding, the channels in the order of
// half-split pairs (that of published weights) whatever the order of the trace.
class RotaryUndo {
 public:
  // Throws Error{Input} where rotary_unknown() says why: `what_failed` is the first part of the
  // sentence.
  RotaryUndo(const ModelShape& shape, const std::string& what_failed);

  // rows fp32 [N, n, head_dim] at consecutive positions from `first` on; none in layers without an
  // embedding, whose channels alone are brought in order.
  at::Tensor undo(const at::Tensor& rows, std::optional<std::int64_t> first) const;

 private:
  std::int64_t dim_;
  bool interleaved_;
  Rotary rotary_;
};

}  // namespace kvloupe::selection
