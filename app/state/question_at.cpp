#include "app/state/question_at.h"

#include <fmt/format.h>

namespace kvloupe::state {

std::string missing(const Place& place) { return place.empty() ? "Open a trace" : ""; }

std::string missing(const Place& place, const MethodChoice& method) {
  if (place.empty()) return missing(place);
  return method.empty() ? "Choose a method" : "";
}

std::string missing(const Place& place, const MethodChoice& a, const MethodChoice& b) {
  return missing(place, a.empty() ? a : b);
}

std::string unknown_method(const MethodChoice& method, const std::string& consequence) {
  return method.brought_in() ? fmt::format("{} was brought in: {}", method.id(), consequence)
                             : fmt::format("This version does not know the method {}: {}",
                                           method.id(), consequence);
}

std::string title_of_run(const MethodChoice& method, const std::string& where) {
  return fmt::format("{} {} in {}", method.recorded() ? "Reading" : "Selecting with", method.id(),
                     where);
}

std::string key_part(const std::optional<trace::NamedKeys>& span) {
  return span ? span->keys.text() : "none";
}

}  // namespace kvloupe::state
