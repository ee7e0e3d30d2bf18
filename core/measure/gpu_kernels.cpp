#include "core/measure/gpu_kernels.h"

#include <ATen/ATen.h>

#include <optional>
#include <tuple>

namespace kvloupe::measure {
namespace {

constexpr std::int64_t kCausalFromLowerRight = 2;  // CausalVariant of torch.nn.attention.bias

// Its causal form counts from the lower right, and it shares KV heads itself.
at::Tensor flash(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale) {
  return std::get<0>(at::_scaled_dot_product_flash_attention(q, k, v, 0, true, false, scale))
      .squeeze(0);
}

// Heads after rows; as many KV heads as query heads.
at::Tensor memory_efficient(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            double scale) {
  return std::get<0>(at::_efficient_attention_forward(q.transpose(1, 2), k.transpose(1, 2),
                                                      v.transpose(1, 2), std::nullopt, std::nullopt,
                                                      std::nullopt, std::nullopt, std::nullopt, 0,
                                                      kCausalFromLowerRight, false, scale))
      .transpose(1, 2)
      .squeeze(0);
}

// Its causal form counts from the upper left, so that it takes a mask.
at::Tensor cudnn(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                 const at::Tensor& mask, double scale) {
  return std::get<0>(
             at::_scaled_dot_product_cudnn_attention(q, k, v, mask, false, 0, false, false, scale))
      .squeeze(0);
}

MakeTensor in_fp16(const MakeTensor& make) {
  return made_once([make] { return make().to(at::kHalf); });
}

MakeTensor in_fp16(const at::Tensor& made) {
  return made_once([made] { return made.to(at::kHalf); });
}

}  // namespace

std::vector<DenseForm> gpu_kernels(const ChunkInputs& chunk) {
  const double scale = chunk.scale;
  const MakeTensor q16 = in_fp16(chunk.q), k16 = in_fp16(chunk.k), v16 = in_fp16(chunk.v);
  const MakeTensor each_k16 = in_fp16(chunk.expanded_k), each_v16 = in_fp16(chunk.expanded_v);
  std::vector<DenseForm> forms = {
      {"flash, fp16",
       [=]() -> Attend {
         return [q = q16(), k = k16(), v = v16(), scale] { return flash(q, k, v, scale); };
       }},
      {"memory-efficient, fp16",
       [=]() -> Attend {
         return [q = q16(), k = each_k16(), v = each_v16(), scale] {
           return memory_efficient(q, k, v, scale);
         };
       }},
      {"cuDNN, fp16", [=, mask = chunk.mask]() -> Attend {
         const at::Tensor q = q16(), k = each_k16();
         const at::Tensor hidden =
             mask().to(at::kHalf).expand({1, q.size(1), q.size(2), k.size(2)});
         return [=, v = each_v16()] { return cudnn(q, k, v, hidden, scale); };
       }}};
  if (chunk.q.scalar_type() == at::kFloat)
    forms.push_back({"memory-efficient, fp32", [chunk]() -> Attend {
                       return [q = chunk.q, k = chunk.expanded_k(), v = chunk.expanded_v(),
                               scale = chunk.scale] { return memory_efficient(q, k, v, scale); };
                     }});
  return forms;
}

}  // namespace kvloupe::measure
