// Projections y = x W^T, with weights packed once for the matrix product.
#pragma once

#include <ATen/core/Tensor.h>

namespace kvloupe::capture {

// An opaque tensor of the same sizes for project(); only this copy need be kept. `weight` fp32
// contiguous [out_features, in_features].
at::Tensor pack_projection(const at::Tensor& weight);

// x fp32 contiguous [rows, in_features], weight packed or plain, bias [out_features] or undefined;
// returns [rows, out_features].
at::Tensor project(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

}  // namespace kvloupe::capture
