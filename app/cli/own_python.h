// A method of the user's own, in Python: run on a trace by the package that comes with the program.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace kvloupe::cli {

struct OwnPython {
  std::string function;  // FILE.py:FUNCTION
  std::string name;      // the run is custom:NAME; empty: the function's name
  std::optional<int> budget;
  std::string rows = "kv_head";
  std::vector<int> layers;  // empty: all
  int seconds = 600;        // after which it is stopped

  // What the run is called. Throws Error{Usage} where the text names no function.
  std::string method() const;
};

// Saves what it keeps in the sidecar of the trace. Throws as run_python_package().
void select_by_python(const std::string& trace, const OwnPython& own);

}  // namespace kvloupe::cli
