// A second trace, for views that draw one beside the other, and where in it the place is.
#pragma once

#include "app/state/answers.h"
#include "app/state/method_choice.h"
#include "app/state/number_scope.h"
#include "app/state/place.h"
#include "app/state/questions/kept/aligned_traces.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::state {

class Workspace;
struct TraceTab;
struct ViewInfo;

// The others that are open, in the order of their tabs.
std::vector<const TraceTab*> other_tabs(const Workspace& workspace);
// The one that the selection names, else the first that is ready; null: there is none.
TracePtr other_trace(const Workspace& workspace);
TracePtr other_trace(const Workspace& workspace,
                     std::string& why);  // why there is none, a sentence
// The same method there; empty where it cannot be, and `why` is a sentence that says why.
MethodChoice choice_in(const MethodChoice& choice, const OpenTrace& other, std::string& why);
// Why it cannot be drawn beside the place; empty where it can.
std::string why_not_beside(const OpenTrace& other, const Place& place);

// Whether this choice of an option has a view draw another trace.
bool draws_other_trace(const std::string& option, const std::string& choice);
// An option of the view and its first such choice; nothing for a view that draws one trace.
std::optional<std::pair<std::string, std::string>> way_to_other_trace(const ViewInfo& view);

// The same place in the other trace: layer and head as they are; chunk, query and keys by their tokens.
struct OtherPlace {
  Place place;          // empty: `why` is a sentence that says why there is none
  MethodChoice method;  // the same one there
  std::string why;
  bool coming = false;  // it is being opened, or the tokens are being matched
  NumberScope numbers;  // the same chunks there, as far as there are any
  std::string note;     // what is not alike, though it can be drawn; empty: nothing
  std::shared_ptr<const AlignedTraces> aligned;  // from this trace to the other

  explicit operator bool() const { return !place.empty(); }
};
// What of the two must agree.
enum class Alike { Heads, Nothing };
OtherPlace other_place(Workspace& workspace, const MethodChoice& method, Alike alike);

}  // namespace kvloupe::state
