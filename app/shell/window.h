// The window of the program.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kvloupe::shell {

struct WindowOptions {
  std::vector<std::string> traces;
  std::uint64_t memory_limit = 0;      // bytes of cached trace data; 0: the default
  std::function<void()> start_engine;  // that of state::Answers
};

// Runs until the user closes the window. Throws Error{Input} when there is no display.
int run_window(const WindowOptions& options);

}  // namespace kvloupe::shell
