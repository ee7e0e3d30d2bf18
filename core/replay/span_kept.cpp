#include "core/replay/span_kept.h"

#include <algorithm>

namespace kvloupe::replay {

const trace::TokenSpan* question_of(const trace::TraceInfo& info) {
  for (const trace::TokenSpan& span : info.spans)
    if (span.name == "question" && span.begin < info.num_tokens) return &span;
  return nullptr;
}

WatchedKeys watched_from_question(const KeySpan& keys, const trace::TraceInfo& info) {
  const trace::TokenSpan* const question = question_of(info);
  return {keys, question != nullptr ? question->begin : 0};
}

SpanCount count_in_span(const trace::CellRecord& cell, std::size_t row, const KeySpan& span) {
  const auto& kept = cell.rows[row].positions;
  const std::int64_t begin = std::max<std::int64_t>(span.first, cell.first_candidate);
  const std::int64_t end = std::min<std::int64_t>(span.second, cell.end_of_candidates());
  if (end <= begin) return {};
  const auto first = std::lower_bound(kept.begin(), kept.end(), begin);
  const auto last = std::lower_bound(first, kept.end(), end);
  return {last - first, end - begin};
}

std::optional<double> span_kept(const trace::CellRecord& cell, std::size_t row,
                                const KeySpan& span) {
  const SpanCount count = count_in_span(cell, row, span);
  if (count.candidates == 0) return std::nullopt;
  return static_cast<double>(count.kept) / static_cast<double>(count.candidates);
}

}  // namespace kvloupe::replay
