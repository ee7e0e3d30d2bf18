// Projections y = x W^T, with weights in the model's compute type, packed once for the matrix product.
// In bf16 and fp16 the rows x are rounded to the type like the weights, products are summed in fp32
// and a sum is rounded to the type; biases and all else of the decoder stay fp32.
#pragma once

#include "core/device/scalar_type.h"

#include <ATen/core/Tensor.h>

namespace kvloupe::capture {

// An opaque tensor of the same sizes for project(), on the CPU; only this copy need be kept. `weight`
// fp32 contiguous [out_features, in_features].
at::Tensor pack_projection(const at::Tensor& weight, ComputeType type = ComputeType::Fp32);

// x fp32 contiguous [rows, in_features], weight packed, or plain fp32, on another device than the CPU
// plain of any compute type, bias [out_features] fp32 or undefined; returns fp32 [rows, out_features].
at::Tensor project(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

// The same of a plain weight of any compute type, the sums not rounded: logits.
at::Tensor project_unrounded(const at::Tensor& x, const at::Tensor& weight);

}  // namespace kvloupe::capture
