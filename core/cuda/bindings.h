// From tensors to the kernels of attention: shapes checked, tables brought to the device of the queries,
// results made there. The same for CUDA and for the device `sim`, whose kernels run in the emulator.
// The operators are those of core/attention/operators.h; what a kernel does not do (a head_dim above
// kMaxHeadDim) is left to the generic form.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <functional>
#include <tuple>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {

// Calls what launches kernels, with the stream of the device and what else the device needs around it.
using Launches = std::function<cudaError_t(cudaStream_t)>;
using Run = std::function<cudaError_t(const Launches&)>;

std::tuple<at::Tensor, at::Tensor, at::Tensor> chunk_attention(const Run& run, const at::Tensor& q,
                                                               const at::Tensor& k,
                                                               const at::Tensor& v,
                                                               at::ArrayRef<double> softmax,
                                                               bool want_mass);

std::tuple<at::Tensor, at::Tensor> chunk_mass(const Run& run, const at::Tensor& q,
                                              const at::Tensor& k, at::ArrayRef<double> softmax);

}  // namespace kvloupe::cuda
