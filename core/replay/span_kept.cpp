#include "core/replay/span_kept.h"

#include <algorithm>

namespace kvloupe::replay {

const trace::TokenSpan* question_of(const trace::TraceInfo& info) {
  for (const trace::TokenSpan& span : info.spans)
    if (span.name == "question" && span.begin < info.num_tokens) return &span;
  return nullptr;
}

WatchedKeys watched_from_question(const trace::KeySet& keys, const trace::TraceInfo& info) {
  const trace::TokenSpan* const question = question_of(info);
  return {keys, question != nullptr ? question->begin : 0};
}

SpanCount count_in_span(const trace::CellRecord& cell, std::size_t row, const trace::KeySet& keys) {
  const auto& kept = cell.rows[row].positions;
  SpanCount count;
  for (const trace::TokenRange& range :
       keys.ranges_in(cell.first_candidate, cell.end_of_candidates())) {
    const auto first = std::lower_bound(kept.begin(), kept.end(), range.begin);
    const auto last = std::lower_bound(first, kept.end(), range.end);
    count.kept += last - first;
    count.candidates += range.end - range.begin;
  }
  return count;
}

std::optional<double> span_kept(const trace::CellRecord& cell, std::size_t row,
                                const trace::KeySet& keys) {
  const SpanCount count = count_in_span(cell, row, keys);
  if (count.candidates == 0) return std::nullopt;
  return static_cast<double>(count.kept) / static_cast<double>(count.candidates);
}

}  // namespace kvloupe::replay
