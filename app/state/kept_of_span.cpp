#include "app/state/kept_of_span.h"

#include <fmt/format.h>

#include <string_view>

namespace kvloupe::state {
namespace {

// "needle's 22 keys", "the 37 keys from 3 to 39"
std::string keys_of(const KeptOfSpan& kept) {
  constexpr std::string_view kNameless = "keys ";
  if (kept.span.starts_with(kNameless))
    return fmt::format("the {} keys from {}", kept.total, kept.span.substr(kNameless.size()));
  return fmt::format("{}'s {} keys", kept.span, kept.total);
}

}  // namespace

std::string words_of(const KeptOfSpan& kept) {
  if (kept.total == 1) return fmt::format("{} is {}", kept.span, kept.kept == 0 ? "lost" : "kept");
  return fmt::format("{} of {} {} kept", kept.kept == 0 ? "None" : std::to_string(kept.kept),
                     keys_of(kept), kept.kept <= 1 ? "is" : "are");
}

std::string words_of(const std::vector<KeptBy>& each) {
  const KeptOfSpan& first = each.front().kept;
  const bool of_one = first.total == 1;
  std::string text = of_one ? "" : fmt::format("Of {} ", keys_of(first));
  for (const KeptBy& one : each) {
    const bool begins = &one == &each.front();
    if (!begins) text += ", ";
    text += one.who;
    if (of_one)
      text += fmt::format(" {} {}", one.kept.kept == 0 ? "loses" : "keeps",
                          begins ? one.kept.span : "it");
    else
      text += fmt::format("{} {}", begins ? " keeps" : "",
                          one.kept.kept == 0 ? "none" : std::to_string(one.kept.kept));
  }
  return text;
}

}  // namespace kvloupe::state
