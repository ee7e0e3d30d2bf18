// The types of number that operators compute on.
#pragma once

#include <ATen/core/Tensor.h>

namespace kvloupe::attention {

// fp32, and on other devices than the CPU fp16 or bf16 too, which are widened to fp32 before anything is
// computed. Throws Error{Internal} for another type, or where the tensors differ in it.
void check_types(at::TensorList tensors);

}  // namespace kvloupe::attention
