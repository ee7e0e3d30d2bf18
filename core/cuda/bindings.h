// From tensors to the kernels: shapes checked, results made on the device of the queries. The same for
// CUDA and for the device `sim`, whose kernels run in the emulator.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <tuple>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {

// The operator kvloupe::chunk_attention (core/attention/operators.h): output, log-sum-exp, key mass.
// Throws c10::Error for what the kernel does not do.
std::tuple<at::Tensor, at::Tensor, at::Tensor> chunk_attention(const at::Tensor& q,
                                                               const at::Tensor& k,
                                                               const at::Tensor& v,
                                                               at::ArrayRef<double> softmax,
                                                               bool want_mass, cudaStream_t stream);

}  // namespace kvloupe::cuda
