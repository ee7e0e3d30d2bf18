#include "app/state/place.h"

#include <fmt/format.h>

namespace kvloupe::state {

std::optional<trace::TokenSpan> watched_span(const Place& place) {
  if (place.empty()) return std::nullopt;
  if (place.has_keys()) {
    const std::string name = place.key_end == place.key_begin + 1
                                 ? fmt::format("key {}", place.key_begin)
                                 : fmt::format("keys {} to {}", place.key_begin, place.key_end - 1);
    return trace::TokenSpan{name, place.key_begin, place.key_end};
  }
  const trace::TokenSpan* found = nullptr;
  for (const trace::TokenSpan& span : place.info().spans)
    if (span.name.rfind("needle", 0) == 0 &&
        (found == nullptr || span.end - span.begin > found->end - found->begin))
      found = &span;
  return found != nullptr ? std::optional(*found) : std::nullopt;
}

}  // namespace kvloupe::state
