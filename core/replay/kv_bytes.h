// What kept keys cost in memory. Free of Torch.
#pragma once

#include "core/selection/method_spec.h"
#include "core/trace/trace_types.h"

#include <cstdint>
#include <optional>

namespace kvloupe::replay {

// K and V that one past key costs a row, in the trace's dtype. Values are stored whole; of keys
// aqua_memory stores fewer lanes. `spec` is empty for a recorded run of an unknown method.
std::int64_t bytes_per_key(const std::optional<selection::MethodSpec>& spec,
                           const trace::TraceInfo& info);

}  // namespace kvloupe::replay
