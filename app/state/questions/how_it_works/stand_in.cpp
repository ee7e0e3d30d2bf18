#include "app/state/questions/how_it_works/stand_in.h"

#include "app/state/workspace.h"

#include <fmt/format.h>

namespace kvloupe::state {
namespace {

// The method and what it is called in the sentence.
StandIn found(const Workspace& workspace, const MethodKind& kind) {
  const Place& place = workspace.place();
  if (const TraceTab* tab = workspace.traces.ready())
    for (const MethodChoice& recorded : tab->recorded)
      if (kind.has(recorded, place.info()))
        return {recorded, fmt::format("{}, of which this trace has a run", recorded.id())};
  const MethodChoice& chosen = workspace.method();
  const bool given = chosen.known() && chosen.spec->has_budget();
  auto spec = selection::MethodSpec::parse(kind.id);
  if (kind.same_budget)
    spec = spec.with(budget_giver(chosen, place.info().num_tokens).budget_values());
  return {choice_anew(spec.resolved(place.trace->shape())),
          fmt::format("{} with {}", kind.id,
                      !kind.same_budget ? "its defaults"
                      : given           ? "the same budget"
                                        : "a budget of its own")};
}

}  // namespace

StandIn stand_in_for(const Workspace& workspace, const MethodKind& kind) {
  const MethodChoice& chosen = workspace.method();
  const Place& place = workspace.place();
  if (place.empty() || kind.has(chosen, place.info())) return {chosen, {}};
  StandIn result = found(workspace, kind);
  if (chosen.empty())
    result.why.clear();
  else if (!chosen.known() && *kind.things != 0)
    result.why = fmt::format("This version does not know the {} of {}: shown is {}.", kind.things,
                             chosen.id(), result.why);
  else
    result.why = fmt::format("{} {}: shown is {}.", chosen.id(), kind.others, result.why);
  return result;
}

}  // namespace kvloupe::state
