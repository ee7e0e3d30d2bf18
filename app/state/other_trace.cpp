#include "app/state/other_trace.h"

#include "app/state/workspace.h"

#include <fmt/format.h>

namespace kvloupe::state {

TracePtr other_trace(const Workspace& workspace) {
  for (const auto& tab : workspace.traces.tabs())
    if (tab.get() != workspace.traces.active() && tab->state == ResultState::Ready)
      return tab->selection.place.trace;
  return nullptr;
}

std::string why_not_beside(const OpenTrace& other, const Place& place) {
  if (other.info().model.file_hash != place.info().model.file_hash) return "it is of another model";
  return other.info().has_layer(place.layer)
             ? ""
             : fmt::format("it does not hold layer {}", place.layer);
}

}  // namespace kvloupe::state
