// Runs this program again, as a command line.
#pragma once

#include <string>
#include <vector>

namespace kvloupe::shell {

// Returns "" on success, else the last line of its standard error. Throws Error when it cannot be
// started.
std::string run_self(const std::vector<std::string>& arguments);

}  // namespace kvloupe::shell
