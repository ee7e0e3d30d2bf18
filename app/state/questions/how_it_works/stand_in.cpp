#include "app/state/questions/how_it_works/stand_in.h"

#include "core/base/units.h"

#include <fmt/format.h>

namespace kvloupe::state {
namespace {

std::string why(const MethodChoice& chosen, const std::string& id, const std::string& kind,
                const std::string& things) {
  if (chosen.empty()) return {};
  if (!chosen.known())
    return fmt::format("This version does not know the {} of {}: shown is {}.", things, chosen.id(),
                       id);
  return fmt::format("{} {}: shown is {} with {}.", chosen.id(), kind, id,
                     chosen.spec->has_budget() ? "the same budget" : "a budget of its own");
}

}  // namespace

StandIn stand_in_for(const MethodChoice& chosen, const Place& place, const std::string& id,
                     const std::string& kind, const std::string& things) {
  using selection::MethodSpec;
  const MethodSpec source = chosen.known() && chosen.spec->has_budget()
                                ? *chosen.spec
                                : MethodSpec::parse(default_spec(place.info().num_tokens));
  const std::int64_t tokens = source.budget_tokens();
  const std::string text =
      tokens > 0 ? fmt::format("{}:budget_tokens={}", id, tokens)
                 : fmt::format("{}:budget_ratio={}", id, format_shortest(source.budget_ratio()));
  return {choice_anew(MethodSpec::parse(text).resolved(place.trace->shape())),
          why(chosen, id, kind, things)};
}

}  // namespace kvloupe::state
