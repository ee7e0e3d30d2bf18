// Which views have something to say of the method that is shown.
#pragma once

#include <string>
#include <vector>

namespace kvloupe::state {

class Workspace;

// Whether the view has something to say of what is shown: views of one kind of methods only about
// such a method, the drift of a closed loop only where the trace has losses.
bool concerns(const std::string& view, const Workspace& workspace);
// The views that were made for the method shown, that which says most first.
std::vector<std::string> own_views(const Workspace& workspace);

}  // namespace kvloupe::state
