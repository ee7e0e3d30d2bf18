// Which views have something to say of the method that is shown.
#pragma once

#include <string>

namespace kvloupe::state {

class Workspace;

// Whether the view has something to say of what is shown: views of one kind of methods only about
// such a method, the drift of a closed loop only where the trace has losses.
bool concerns(const std::string& view, const Workspace& workspace);
// The view that was made for the method shown; empty: none was.
std::string own_view(const Workspace& workspace);

}  // namespace kvloupe::state
