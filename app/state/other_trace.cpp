#include "app/state/other_trace.h"

#include "app/state/workspace.h"

namespace kvloupe::state {

TracePtr other_trace(const Workspace& workspace) {
  for (const auto& tab : workspace.traces.tabs())
    if (tab.get() != workspace.traces.active() && tab->state == ResultState::Ready)
      return tab->selection.place.trace;
  return nullptr;
}

}  // namespace kvloupe::state
