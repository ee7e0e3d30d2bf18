// Which of the kernels' types of number a tensor has.
#pragma once

#include "core/cuda/number_types.h"

#include <ATen/core/Tensor.h>

#include <optional>

namespace kvloupe::cuda {

inline std::optional<NumberType> type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat: return NumberType::Fp32;
    case at::kHalf: return NumberType::Fp16;
    case at::kBFloat16: return NumberType::Bf16;
    default: return std::nullopt;
  }
}

}  // namespace kvloupe::cuda
