// Views of one kind of methods show a method of that kind where the one chosen is of another: one that the
// trace has a run of, else the method that the view is about.
#pragma once

#include "app/state/method_choice.h"
#include "app/state/place.h"

#include <string>

namespace kvloupe::state {

class Workspace;

struct MethodKind {
  const char* id = "";      // of the method that the view is about
  const char* others = "";  // "does not select pages": what is said of a method of another kind
  // "pages": what this version does not know of an unknown method; empty where it knows.
  const char* things = "";
  bool same_budget = false;  // `id` gets the budget of the method chosen, not its own default
  bool (*has)(const MethodChoice& choice, const trace::TraceInfo& info) = nullptr;
};

struct StandIn {
  MethodChoice method;
  std::string why;  // a sentence; empty: it is the method chosen
};
// The method chosen, where it is of this kind or there is no trace.
StandIn stand_in_for(const Workspace& workspace, const MethodKind& kind);

}  // namespace kvloupe::state
