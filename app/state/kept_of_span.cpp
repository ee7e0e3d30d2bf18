#include "app/state/kept_of_span.h"

#include "app/state/place.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <string_view>

namespace kvloupe::state {

bool is_picked(const std::string& name) { return name.ends_with(kPickedKeys); }

std::string picked_words(std::int64_t count) {
  return count == 1 ? "1 picked key" : format_count(count) + kPickedKeys;
}

std::string keys_of(const std::string& name, std::int64_t total) {
  constexpr std::string_view kNameless = "keys ";
  if (is_picked(name)) return "the " + picked_words(total);
  if (name.starts_with(kNameless))
    return fmt::format("the {} keys from {}", total, name.substr(kNameless.size()));
  return fmt::format("{}'s {} keys", name, total);
}

namespace {

std::string name_of_one(const std::string& name) {
  return is_picked(name) ? picked_words(1) : name;  // of several, the only one that is there
}

}  // namespace

std::string words_of(const KeptOfSpan& kept) {
  if (kept.total == 1)
    return fmt::format("{} is {}", name_of_one(kept.span), kept.kept == 0 ? "not kept" : "kept");
  return fmt::format("{} of {} {} kept", kept.kept == 0 ? "None" : std::to_string(kept.kept),
                     keys_of(kept.span, kept.total), kept.kept <= 1 ? "is" : "are");
}

std::string words_of(const std::vector<KeptBy>& each) {
  const KeptOfSpan& first = each.front().kept;
  const bool of_one = first.total == 1;
  if (of_one && each.size() == 2 && (each[1].kept.kept == 0) == (first.kept == 0))
    return fmt::format("{} and {} {} {}", each[0].who, each[1].who,
                       first.kept == 0 ? "lose" : "keep", name_of_one(first.span));
  std::string text = of_one ? "" : fmt::format("Of {} ", keys_of(first.span, first.total));
  for (const KeptBy& one : each) {
    const bool begins = &one == &each.front();
    if (!begins) text += ", ";
    text += one.who;
    if (of_one)
      text += fmt::format(" {} {}", one.kept.kept == 0 ? "loses" : "keeps",
                          begins ? name_of_one(one.kept.span) : "it");
    else
      text += fmt::format("{} {}", begins ? " keeps" : "",
                          one.kept.kept == 0 ? "none" : std::to_string(one.kept.kept));
  }
  return text;
}

}  // namespace kvloupe::state
