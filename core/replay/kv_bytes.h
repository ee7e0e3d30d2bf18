// What kept keys cost in memory. Free of Torch.
#pragma once

#include "core/selection/spec/method_spec.h"
#include "core/trace/trace_types.h"

#include <cstdint>
#include <optional>

namespace kvloupe::replay {

// K and V that one past key costs a row, in the trace's dtype. Of keys, and with slice_values
// of values, aqua_memory stores fewer lanes. `spec` is empty for a recorded run of an unknown method.
std::int64_t bytes_per_key(const std::optional<selection::MethodSpec>& spec,
                           const trace::TraceInfo& info);

// What a method holds of one KV head and layer beside the K and V that it keeps, after `past` keys of
// which it keeps `kept`: page bounds, block means, copies of keys in the trace's dtype, tallies and
// tables of 4 bytes an entry. `page_size`: of Traits.
double metadata_bytes(const selection::Metadata& metadata, std::int64_t page_size,
                      trace::DType dtype, std::int64_t past, std::int64_t kept);

}  // namespace kvloupe::replay
