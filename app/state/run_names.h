// The names that the user gave to runs and to methods tried on the spot. A name is of its SPEC in the
// trace of its tab, and stands wherever the run is named, in quotes: so it is told from a SPEC.
#pragma once

#include "app/state/method_choice.h"

#include <string>
#include <vector>

namespace kvloupe::state {

class Workspace;

// In the trace shown; "": it has none.
std::string own_name(const Workspace& workspace, const MethodChoice& method);
// "“my own”", else its short label (method_groups.h).
std::string label_of(const Workspace& workspace, const MethodChoice& method);
// Of a list, each told from the others: "“my own”  quoka  256", else as distinct_labels().
std::vector<std::string> labels_of(const Workspace& workspace,
                                   const std::vector<MethodChoice>& methods);

}  // namespace kvloupe::state
