#include "core/measure/gpu_kernels.h"

#include "core/base/log.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <optional>
#include <tuple>
#include <utility>

namespace kvloupe::measure {
namespace {

constexpr double kTolerance = 0.02;
constexpr std::int64_t kCausalFromLowerRight = 2;  // CausalVariant of torch.nn.attention.bias

// Its causal form counts from the lower right, and it shares KV heads itself.
at::Tensor flash(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale) {
  return std::get<0>(at::_scaled_dot_product_flash_attention(q, k, v, 0, true, false, scale));
}

// Heads after rows; as many KV heads as query heads.
at::Tensor memory_efficient(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            double scale) {
  return std::get<0>(at::_efficient_attention_forward(q.transpose(1, 2), k.transpose(1, 2),
                                                      v.transpose(1, 2), std::nullopt, std::nullopt,
                                                      std::nullopt, std::nullopt, std::nullopt, 0,
                                                      kCausalFromLowerRight, false, scale))
      .transpose(1, 2);
}

// Its causal form counts from the upper left, so that it takes a mask.
at::Tensor cudnn(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                 const at::Tensor& mask, double scale) {
  return std::get<0>(
      at::_scaled_dot_product_cudnn_attention(q, k, v, mask, false, 0, false, false, scale));
}

// Why a form's result cannot be used; empty where it can.
std::string why_not(const NamedAttention& form, const at::Tensor& expected) {
  try {
    const at::Tensor found = form.run().squeeze(0).to(expected.scalar_type());
    if (found.sizes() != expected.sizes()) return "its result has another shape";
    const double largest = expected.abs().max().item<double>();
    const double apart = (found - expected).abs().max().item<double>();
    if (apart <= kTolerance * largest) return {};
    return fmt::format("its result is {:.3g} apart from ours, of {:.3g}", apart, largest);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
}

}  // namespace

std::vector<NamedAttention> gpu_kernels(const ChunkInputs& chunk) {
  const double scale = chunk.scale;
  const at::Tensor q = chunk.q, k = chunk.expanded_k, v = chunk.expanded_v;
  const at::Tensor q16 = q.to(at::kHalf), k16 = k.to(at::kHalf), v16 = v.to(at::kHalf);
  const at::Tensor shared_k16 = chunk.k.to(at::kHalf), shared_v16 = chunk.v.to(at::kHalf);
  const at::Tensor mask16 =
      chunk.mask.to(at::kHalf).expand({1, q.size(1), q.size(2), chunk.k.size(2)});
  std::vector<NamedAttention> forms = {
      {"flash, fp16", [=] { return flash(q16, shared_k16, shared_v16, scale); }},
      {"memory-efficient, fp16", [=] { return memory_efficient(q16, k16, v16, scale); }},
      {"cuDNN, fp16", [=] { return cudnn(q16, k16, v16, mask16, scale); }}};
  if (q.scalar_type() == at::kFloat)
    forms.push_back({"memory-efficient, fp32", [=] { return memory_efficient(q, k, v, scale); }});
  return forms;
}

std::vector<NamedAttention> those_that_agree(std::vector<NamedAttention> forms,
                                             const at::Tensor& expected) {
  std::vector<NamedAttention> agreeing;
  for (NamedAttention& form : forms) {
    const std::string reason = why_not(form, expected);
    if (reason.empty())
      agreeing.push_back(std::move(form));
    else
      log::info("dense attention by {} is left out: {}", form.name,
                reason.substr(0, reason.find('\n')));
  }
  return agreeing;
}

}  // namespace kvloupe::measure
