// The feed-forward part of a layer: one for all tokens, or experts that a router chooses.
#pragma once

#include "capture/model/model.h"

#include <ATen/core/Tensor.h>

namespace kvloupe::capture {

// x fp32 contiguous [m, hidden_size], normed; returns what the layer adds, of the same shape.
at::Tensor feed_forward(const at::Tensor& x, const LayerWeights& weights, const ModelConfig& model);

}  // namespace kvloupe::capture
