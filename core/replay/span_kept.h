// What a method keeps of keys that are watched, such as a needle. Known without Torch.
#pragma once

#include "core/trace/runs/selection_record.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace kvloupe::replay {

// Positions [first, second).
using KeySpan = std::pair<std::int32_t, std::int32_t>;

// Keys whose share kept is averaged, over the chunks that hold the token `from` or come later.
struct WatchedKeys {
  KeySpan keys;
  std::int32_t from = 0;
};
// Of the trace, where its tokens ask for something; null: none is called so, or the trace ends before.
const trace::TokenSpan* question_of(const trace::TraceInfo& info);
// From the question on where the trace has a span of that name: what a method keeps of a needle before
// anybody asks for it hides what is left when the question comes.
WatchedKeys watched_from_question(const KeySpan& keys, const trace::TraceInfo& info);

struct SpanCount {
  std::int64_t kept = 0, candidates = 0;  // of the span's keys
};
SpanCount count_in_span(const trace::CellRecord& cell, std::size_t row, const KeySpan& span);
// Share of the span's candidates that the row keeps; empty where none of them is a candidate.
std::optional<double> span_kept(const trace::CellRecord& cell, std::size_t row,
                                const KeySpan& span);

}  // namespace kvloupe::replay
