// From tensors to the kernels of probabilities.cuh, as selection_bindings.h has it for the others. Queries
// and keys are fp32, fp16 or bf16, both of one type; others are left to the generic forms.
#pragma once

#include "core/cuda/selection_bindings.h"

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

namespace kvloupe::cuda {

// The operators of core/selection/operators/operators.h by their names. visible, first and sinks lie on the host.
at::Tensor reduce_probabilities(const Launcher& on_device, const at::Tensor& queries,
                                const at::Tensor& keys, const at::Tensor& visible,
                                const std::optional<at::Tensor>& first,
                                const std::optional<at::Tensor>& sinks, double scale,
                                double softcap, bool largest);
at::Tensor joint_softmax_sums(const Launcher& on_device, const at::Tensor& queries,
                              const at::Tensor& keys, const at::Tensor& visible,
                              const std::optional<at::Tensor>& first, double scale, double softcap);
std::tuple<at::Tensor, at::Tensor> columns_and_slashes(
    const Launcher& on_device, const at::Tensor& queries, const at::Tensor& keys,
    const at::Tensor& visible, const std::optional<at::Tensor>& first,
    const std::optional<at::Tensor>& sinks, double scale, double softcap);

template <typename Device>
void implement_probabilities(torch::Library& operators) {
  operators.impl("reduce_probabilities", detail::Bound<Device, reduce_probabilities>::call);
  operators.impl("joint_softmax_sums", detail::Bound<Device, joint_softmax_sums>::call);
  operators.impl("columns_and_slashes", detail::Bound<Device, columns_and_slashes>::call);
}

}  // namespace kvloupe::cuda
