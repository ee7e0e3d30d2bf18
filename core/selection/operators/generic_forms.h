// The operators of operators.h in tensor algebra, for any device: what they mean, and the oracle of the
// fused forms. Memory is bounded by the rows and keys of one KV head where both meet.
#pragma once

#include "core/selection/operators/cpu_forms.h"

namespace kvloupe::selection::generic {

using at::Tensor;
using cpu::MaybeTensor;

// Each takes and gives what the fused form of its name does.
#define KVLOUPE_DECLARE_GENERIC(name, schema) decltype(cpu::name) name;
KVLOUPE_SELECTION_OPERATORS(KVLOUPE_DECLARE_GENERIC)
#undef KVLOUPE_DECLARE_GENERIC

}  // namespace kvloupe::selection::generic
