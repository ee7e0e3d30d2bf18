// oneDNN's packed product through Torch's dispatcher: some 15 to 25 percent faster than at::mm,
// which reorders the weights at every call, for chunks of 16 to 2,048 rows alike.
#include "capture/model/linear.h"

#include "core/device/device.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace kvloupe::capture {
namespace {

using Reorder = at::Tensor(const at::Tensor&, std::optional<std::int64_t>);
using LinearPointwise = at::Tensor(const at::Tensor&, const at::Tensor&,
                                   const std::optional<at::Tensor>&, c10::string_view,
                                   c10::List<std::optional<at::Scalar>>,
                                   std::optional<c10::string_view>);

// Widened weights of one step: as many as stay in a core's cache.
constexpr std::int64_t kWidened = 1 << 18;
// On a device the step is there for memory's sake alone: 128 MiB.
constexpr std::int64_t kWidenedOnDevice = 1 << 25;

at::Tensor packed_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  static const auto product = c10::Dispatcher::singleton()
                                  .findSchemaOrThrow("mkldnn::_linear_pointwise", "")
                                  .typed<LinearPointwise>();
  return product.call(x, weight, bias.defined() ? std::optional(bias) : std::nullopt, "none",
                      c10::List<std::optional<at::Scalar>>(), "");
}

// Rounded to the weight's type.
at::Tensor rounded_product(const at::Tensor& x, const at::Tensor& weight) {
  const at::ScalarType type = weight.scalar_type();
  if (weight.is_mkldnn()) return packed_product(x.to(type), weight, {});
  // A processor that was not given packed weights does not multiply the type.
  return weight.is_cpu() ? project_unrounded(x, weight).to(type) : at::mm(x.to(type), weight.t());
}

}  // namespace

at::Tensor pack_projection(const at::Tensor& weight, ComputeType type) {
  const at::Tensor rounded = weight.to(scalar_type(type));
  if (!device::multiplies(type)) return rounded;
  static const auto reorder = c10::Dispatcher::singleton()
                                  .findSchemaOrThrow("mkldnn::_reorder_linear_weight", "")
                                  .typed<Reorder>();
  return reorder.call(rounded, std::nullopt);
}

at::Tensor project(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::ScalarType type = weight.scalar_type();
  if (type == at::kFloat) {
    if (weight.is_mkldnn()) return packed_product(x, weight, bias);
    return bias.defined() ? at::addmm(bias, x, weight.t()) : at::mm(x, weight.t());
  }
  const at::Tensor result = rounded_product(x, weight).to(at::kFloat);
  return bias.defined() ? result.add_(bias) : result;
}

at::Tensor project_unrounded(const at::Tensor& x, const at::Tensor& weight) {
  const at::ScalarType type = weight.scalar_type();
  if (type == at::kFloat) return at::mm(x, weight.t());
  const at::Tensor rows = x.to(type).to(at::kFloat);
  const std::int64_t out = weight.size(0);
  const std::int64_t widened = x.is_cpu() ? kWidened : kWidenedOnDevice;
  const std::int64_t step = std::max<std::int64_t>(16, widened / weight.size(1));
  at::Tensor result = at::empty({x.size(0), out}, rows.options());
  const auto multiply = [&](std::int64_t begin) {
    const std::int64_t count = std::min(step, out - begin);
    result.narrow(1, begin, count)
        .copy_(at::mm(rows, weight.narrow(0, begin, count).to(at::kFloat).t()));
  };
  if (!x.is_cpu()) {
    for (std::int64_t begin = 0; begin < out; begin += step) multiply(begin);
    return result;
  }
  at::parallel_for(0, (out + step - 1) / step, 1, [&](std::int64_t first, std::int64_t last) {
    const c10::InferenceMode no_gradients;
    for (std::int64_t begin = first * step; begin < std::min(out, last * step); begin += step)
      multiply(begin);
  });
  return result;
}

}  // namespace kvloupe::capture
