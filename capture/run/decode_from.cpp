#include "capture/run/decode_from.h"

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace kvloupe::capture {
namespace {

std::string names_of(const Prompt& prompt) {
  std::set<std::string> names;
  for (const trace::TokenSpan& span : prompt.spans) names.insert(printable(span.name));
  return names.empty() ? "has no spans" : fmt::format("has the spans {}", fmt::join(names, ", "));
}

}  // namespace

std::int32_t prefill_tokens(const std::string& option, std::int64_t position,
                            const Prompt& prompt) {
  const auto tokens = static_cast<std::int64_t>(prompt.ids.size());
  if (tokens < 2)
    throw input_error(fmt::format("{} {} cannot be used", option, position),
                      "a prompt of one token has nothing to decode after its prefill",
                      "give a longer prompt");
  if (position < 1 || position >= tokens)
    throw input_error(fmt::format("{} {} is out of range", option, position),
                      fmt::format("the prompt has {} tokens, of which one at least is prefilled "
                                  "and one decoded",
                                  tokens),
                      fmt::format("give a position from 1 to {}", tokens - 1));
  return static_cast<std::int32_t>(position);
}

std::int32_t prefill_tokens(const std::string& option, const std::string& decode_from,
                            const Prompt& prompt) {
  if (const auto position = parse_int(decode_from))
    return prefill_tokens(option, *position, prompt);
  const auto span =
      std::find_if(prompt.spans.begin(), prompt.spans.end(),
                   [&](const trace::TokenSpan& each) { return each.name == decode_from; });
  if (span == prompt.spans.end())
    throw input_error(fmt::format("{} '{}' marks nothing", option, printable(decode_from)),
                      fmt::format("the prompt {}", names_of(prompt)),
                      "name one of its spans or give a position");
  if (span->begin == 0)
    throw input_error(fmt::format("{} {} cannot be used", option, printable(decode_from)),
                      "the span begins with the prompt, which leaves nothing to prefill",
                      "name a span that begins later or give a position");
  return prefill_tokens(option, span->begin, prompt);
}

}  // namespace kvloupe::capture
