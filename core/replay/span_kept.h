// What a method keeps of keys that are watched, such as a needle. Known without Torch.
#pragma once

#include "core/trace/selection_record.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace kvloupe::replay {

// Positions [first, second).
using KeySpan = std::pair<std::int32_t, std::int32_t>;

struct SpanCount {
  std::int64_t kept = 0, candidates = 0;  // of the span's keys
};
SpanCount count_in_span(const trace::CellRecord& cell, std::size_t row, const KeySpan& span);
// Share of the span's candidates that the row keeps; empty where none of them is a candidate.
std::optional<double> span_kept(const trace::CellRecord& cell, std::size_t row,
                                const KeySpan& span);

}  // namespace kvloupe::replay
