// From tensors to the kernels of the operators of core/selection: shapes checked, results made on the
// device of the inputs. The same for CUDA and for the device `sim`. What a kernel does not do is left to
// the operator's generic form.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {

// Runs a launch as the device needs it: on its stream, with its memory within reach.
using Launch = std::function<cudaError_t(cudaStream_t)>;
using Launcher = std::function<cudaError_t(const Launch&)>;

// The operators of core/selection/operators/operators.h by their names. Kernels take q and keys, or q and bounds,
// of one type, fp32, fp16 or bf16, and rows of that type or fp32. Bounds are of the type of their rows,
// relevance is fp64, and all other numbers are fp32.
std::tuple<at::Tensor, at::Tensor, at::Tensor> keep_best_rows(
    const Launcher& on_device, const at::Tensor& scores, std::int64_t budget,
    const std::optional<at::Tensor>& forced);
at::Tensor ranked_rows(const Launcher& on_device, const at::Tensor& scores, std::int64_t count);
at::Tensor query_relevance(const Launcher& on_device, const at::Tensor& q);
at::Tensor score_keys(const Launcher& on_device, const at::Tensor& q, const at::Tensor& k,
                      const at::Tensor& chosen, std::int64_t num_candidates, bool cosine,
                      bool mean_of_queries, bool scores_first);
at::Tensor key_products(const Launcher& on_device, const at::Tensor& rows, const at::Tensor& keys);
at::Tensor page_bounds(const Launcher& on_device, const at::Tensor& rows, std::int64_t page_size,
                       std::int64_t cut);
at::Tensor page_scores(const Launcher& on_device, const at::Tensor& q, const at::Tensor& bounds);
at::Tensor block_means(const Launcher& on_device, const at::Tensor& rows, std::int64_t block_size,
                       std::int64_t cut);

namespace detail {

template <typename Device, auto kBinding>
struct Bound;
template <typename Device, typename Result, typename... Arguments,
          Result (*kBinding)(const Launcher&, const at::Tensor&, Arguments...)>
struct Bound<Device, kBinding> {
  static Result call(const at::Tensor& first, Arguments... arguments) {
    const Device device(first.device());
    return kBinding([&](const Launch& launch) { return device.run(launch); }, first,
                    std::forward<Arguments>(arguments)...);
  }
};

}  // namespace detail

// Registers the kernels with the device's operators. Device(c10::Device) lives as long as a call, and
// its run(launch) does what Launcher says.
template <typename Device>
void implement_selection(torch::Library& operators) {
  operators.impl("keep_best_rows", detail::Bound<Device, keep_best_rows>::call);
  operators.impl("ranked_rows", detail::Bound<Device, ranked_rows>::call);
  operators.impl("query_relevance", detail::Bound<Device, query_relevance>::call);
  operators.impl("score_keys", detail::Bound<Device, score_keys>::call);
  operators.impl("key_products", detail::Bound<Device, key_products>::call);
  operators.impl("page_bounds", detail::Bound<Device, page_bounds>::call);
  operators.impl("page_scores", detail::Bound<Device, page_scores>::call);
  operators.impl("block_means", detail::Bound<Device, block_means>::call);
}

}  // namespace kvloupe::cuda
