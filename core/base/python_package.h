// The package `kvloupe` for Python that comes with the program, run as a command: `python3 -m kvloupe ARGUMENTS`, or by
// what KVLOUPE_PYTHON names.
#pragma once

#include "core/base/error.h"
#include "core/base/run_self.h"

#include <memory>
#include <string>
#include <vector>

namespace kvloupe {

// Why it cannot be run, in three parts; empty: Python and the package are there. What Python lacks shows when it runs.
std::string python_package_problem();
// One under way, which calls this program where it needs one. Throws Error when it cannot be started.
std::unique_ptr<OwnCommand> start_python_package(const std::vector<std::string>& arguments,
                                                 bool keep_output);
// The packages that Python needs for it, as pip takes them, and for an evaluation.
inline constexpr const char* kPythonNeeds = "numpy h5py";
inline constexpr const char* kPythonNeedsForEval =
    "numpy h5py lm-eval==0.4.13 wonderwords nltk transformers";
// What one said that has failed: Error{Usage} where it says that it was called wrongly, else Error{Input}, with `needs`
// where Python could not run it.
Error error_of_python_package(const OwnCommand& ended, const char* needs = kPythonNeeds);
// Until it has ended. Throws what it said.
void run_python_package(const std::vector<std::string>& arguments);

}  // namespace kvloupe
