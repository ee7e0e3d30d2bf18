// The spans that one may watch: those of the trace, the digits in its needle, a match of a search.
#pragma once

#include "app/state/place.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

// Whether it is a part of the text that people look for: no role of a chat, and not what of the prompt was decoded.
bool is_landmark(const trace::TokenSpan& span);

// What is followed where no keys are chosen: the needle itself before its parts ("needle_key" and the like).
// Null: the trace has none.
const trace::TokenSpan* needle_of(const trace::TraceInfo& info);

struct SpanChoice {
  std::string name;
  trace::TokenSpan span;
};
// The needle and its parts first, then the question, then the others, roles last. "digits of needle" is
// the longest number in it, where the trace has no span of its own for just that.
std::vector<SpanChoice> span_choices(const OpenTrace& trace);

// The tokens that hold the text, whole: the first match that begins at `from` or later, else the first of
// all. Nothing where the text is not found.
std::optional<trace::TokenSpan> find_span(const std::vector<std::string>& tokens,
                                          const std::string& text, std::int32_t from);

// How the text of the keys begins, as one reads it; between those that lie apart an ellipsis. No more than a line
// or two, for keys may be a hundred thousand.
std::string text_of_keys(const OpenTrace& trace, const trace::KeySet& keys);

}  // namespace kvloupe::state
