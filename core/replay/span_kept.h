// What a method keeps of keys that are watched, such as a needle. Known without Torch.
#pragma once

#include "core/trace/key_set.h"
#include "core/trace/runs/selection_record.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace kvloupe::replay {

// Keys whose share kept is averaged, over the chunks that hold the token `from` or come later.
struct WatchedKeys {
  trace::KeySet keys;
  std::int32_t from = 0;
};
// Of the trace, where its tokens ask for something; null: none is called so, or the trace ends before.
const trace::TokenSpan* question_of(const trace::TraceInfo& info);
// From the question on where the trace has a span of that name: what a method keeps of a needle before
// anybody asks for it hides what is left when the question comes.
WatchedKeys watched_from_question(const trace::KeySet& keys, const trace::TraceInfo& info);

struct SpanCount {
  std::int64_t kept = 0, candidates = 0;  // of these keys
};
SpanCount count_in_span(const trace::CellRecord& cell, std::size_t row, const trace::KeySet& keys);
// Share of those that are candidates that the row keeps; empty where none of them is a candidate.
std::optional<double> span_kept(const trace::CellRecord& cell, std::size_t row,
                                const trace::KeySet& keys);

}  // namespace kvloupe::replay
