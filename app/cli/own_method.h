// A method of the user's own, in Python or C: run on a trace by the package that comes with the program.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace kvloupe::cli {

struct OwnMethod {
  std::string python;  // FILE.py:FUNCTION
  std::string plugin;  // LIBRARY.so:FUNCTION, in place of it
  std::string name;    // the run is custom:NAME; empty: the function's name
  std::optional<int> budget;
  std::string rows = "kv_head";
  std::vector<int> layers;  // empty: all
  int seconds = 600;        // after which it is stopped

  bool is_named() const { return !python.empty() || !plugin.empty(); }
  const std::string& function() const { return plugin.empty() ? python : plugin; }
  // What the run is called. Throws Error{Usage} where the text names no function.
  std::string method() const;
};

// Saves what it keeps in the sidecar of the trace. Throws as run_python_package().
void select_by(const std::string& trace, const OwnMethod& own);

}  // namespace kvloupe::cli
