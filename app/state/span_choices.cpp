#include "app/state/span_choices.h"

#include "app/state/token_text.h"
#include "core/trace/decoded_prompt.h"

#include <algorithm>
#include <cctype>

namespace kvloupe::state {
namespace {

bool is_number(const std::string& token) {
  const bool any =
      std::any_of(token.begin(), token.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  return any && std::all_of(token.begin(), token.end(), [](unsigned char c) {
           return std::isdigit(c) != 0 || std::isspace(c) != 0;
         });
}

// The longest run of tokens that are numbers.
std::optional<trace::TokenSpan> digits_in(const std::vector<std::string>& tokens,
                                          const trace::TokenSpan& span) {
  trace::TokenSpan best{"digits of " + span.name, 0, 0};
  for (std::int32_t begin = span.begin; begin < span.end;) {
    std::int32_t end = begin;
    while (end < span.end && is_number(tokens[static_cast<std::size_t>(end)])) ++end;
    if (end - begin > best.end - best.begin) best = {best.name, begin, end};
    begin = std::max(end, begin + 1);
  }
  return best.end > best.begin ? std::optional(best) : std::nullopt;
}

int rank_of(const trace::TokenSpan& span) {
  if (span.name.rfind("needle", 0) == 0) return 0;
  if (span.name == "question") return 1;
  return is_landmark(span) ? 2 : 3;
}

}  // namespace

bool is_landmark(const trace::TokenSpan& span) {
  return span.name.rfind("role", 0) != 0 && span.name != trace::kDecodedPrompt;
}

const trace::TokenSpan* needle_of(const trace::TraceInfo& info) {
  const trace::TokenSpan* found = nullptr;
  for (const trace::TokenSpan& span : info.spans)
    if (span.name.rfind("needle", 0) == 0 &&
        (found == nullptr || span.end - span.begin > found->end - found->begin))
      found = &span;
  return found;
}

std::vector<SpanChoice> span_choices(const OpenTrace& trace) {
  std::vector<trace::TokenSpan> spans;
  for (const trace::TokenSpan& span : trace.info().spans)
    if (span.begin < span.end) spans.push_back(span);
  // A needle before its parts.
  std::stable_sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
    if (rank_of(a) != rank_of(b)) return rank_of(a) < rank_of(b);
    return rank_of(a) == 0 && a.end - a.begin > b.end - b.begin;
  });
  if (!spans.empty() && rank_of(spans.front()) == 0) {
    const auto digits = digits_in(trace.session->token_texts(), spans.front());
    const bool named = digits && std::any_of(spans.begin(), spans.end(), [&](const auto& span) {
                         return span.begin == digits->begin && span.end == digits->end;
                       });
    if (digits && !named) spans.insert(spans.begin() + 1, *digits);
  }
  std::vector<SpanChoice> choices;
  for (const trace::TokenSpan& span : spans) choices.push_back({readable_name(span.name), span});
  return choices;
}

std::optional<trace::TokenSpan> find_span(const std::vector<std::string>& tokens,
                                          const std::string& text, std::int32_t from) {
  const std::vector<TokenRange> found = find_text(tokens, text);
  if (text.empty() || found.empty()) return std::nullopt;
  auto at =
      std::lower_bound(found.begin(), found.end(), from,
                       [](const TokenRange& range, std::int32_t t) { return range.begin < t; });
  if (at == found.end()) at = found.begin();
  return trace::TokenSpan{text, at->begin, at->end};
}

std::string text_of_keys(const OpenTrace& trace, const trace::KeySet& keys) {
  constexpr std::size_t kMost = 400;  // bytes
  std::string text;
  const std::vector<std::string>& tokens = trace.session->token_texts();
  for (const trace::TokenRange& range : keys.ranges_in(0, std::ssize(tokens))) {
    if (text.size() > kMost) break;
    if (range.begin > keys.first()) text += " \u2026 ";
    for (std::int32_t t = range.begin; t < range.end && text.size() <= kMost; ++t)
      text += tokens[static_cast<std::size_t>(t)];
  }
  return readable_text(text);
}

}  // namespace kvloupe::state
