// The number type of a model's weights and of the inputs of its matrix products.
#pragma once

namespace kvloupe {

enum class ComputeType { Fp32, Bf16, Fp16 };

}  // namespace kvloupe
