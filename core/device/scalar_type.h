// A compute type as Torch names it.
#pragma once

#include "core/base/compute_type.h"

#include <c10/core/ScalarType.h>

namespace kvloupe {

inline c10::ScalarType scalar_type(ComputeType type) {
  switch (type) {
    case ComputeType::Fp32: return c10::kFloat;
    case ComputeType::Bf16: return c10::kBFloat16;
    case ComputeType::Fp16: return c10::kHalf;
  }
  return c10::kFloat;
}

}  // namespace kvloupe
