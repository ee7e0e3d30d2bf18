// The boundary that no exception of a frame passes: what a panel threw is taken back from Dear
// ImGui's stacks and told, and the window goes on.
#pragma once

#include <functional>
#include <string>

namespace kvloupe::shell {

// Runs `draw`. "" when all went well, else the sentence of what was thrown; the windows, ids and
// styles that `draw` had begun are ended.
std::string guarded(const std::function<void()>& draw);

}  // namespace kvloupe::shell
