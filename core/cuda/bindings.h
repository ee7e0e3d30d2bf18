// From tensors to the kernels: shapes checked, results made on the device of the queries. The same for
// CUDA and for the device `sim`, whose kernels run in the emulator.
#pragma once

#include "core/cuda/chunk_attention.cuh"

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <functional>
#include <tuple>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {

// The kernel on the device's stream: launch_chunk_attention and what the device needs around it.
using LaunchChunkAttention = std::function<cudaError_t(const ChunkAttention&)>;

// The operator kvloupe::chunk_attention (core/attention/operators.h): output, log-sum-exp, key mass.
// What the kernel does not do (a softmax that is not plain, a head_dim above kMaxHeadDim) is left to
// the generic form.
std::tuple<at::Tensor, at::Tensor, at::Tensor> chunk_attention(
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, at::ArrayRef<double> softmax,
    bool want_mass, const LaunchChunkAttention& launch);

}  // namespace kvloupe::cuda
