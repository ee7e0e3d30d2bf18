// A method of the user's own, in Python or C: run on a trace by the package that comes with the program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::cli {

struct OwnMethod {
  std::string python;  // FILE.py:FUNCTION
  std::string
      plugin;  // LIBRARY.so:FUNCTION, in place of it, or NAME: NAME.so:NAME in plugin_folder()
  std::string name;  // the run is custom:NAME; empty: the function's name
  std::optional<int> budget;
  std::string rows = "kv_head";
  std::vector<int> layers;                       // empty: all
  int seconds = 600;                             // after which it is stopped
  std::optional<std::uint64_t> bytes_of_memory;  // nothing: all of the machine's

  bool is_named() const { return !python.empty() || !plugin.empty(); }
  // FILE:FUNCTION. Throws Error{Input} where the folder has no plug-in of that name.
  std::string function() const;
  // What the run is called. Throws Error{Usage} where the text names no function.
  std::string method() const;
};

// "plugins" in the folder of settings. Nothing there is loaded before it is named.
std::filesystem::path plugin_folder();

// Saves what it keeps in the sidecar of the trace. Throws as run_python_package().
void select_by(const std::string& trace, const OwnMethod& own);

}  // namespace kvloupe::cli
