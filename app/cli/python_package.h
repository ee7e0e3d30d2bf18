// The package `kvloupe` for Python that comes with the program, run as a command.
#pragma once

#include <string>
#include <vector>

namespace kvloupe::cli {

// `python3 -m kvloupe ARGUMENTS`, or by what KVLOUPE_PYTHON names; ended with this program. Throws Error{Usage} where
// it says that it was called wrongly, else Error{Input} with what it said.
void run_python_package(const std::vector<std::string>& arguments);

}  // namespace kvloupe::cli
