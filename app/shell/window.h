// The window of the program.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kvloupe::shell {

struct WindowOptions {
  std::vector<std::string> traces;
  std::uint64_t memory_limit = 0;  // bytes of cached trace data; 0: the default
  // Called once, when the first frame is on screen and before any trace is opened: loads the engine.
  std::function<void()> start_engine;
};

// Runs until the user closes the window. Throws Error{Input} when there is no display.
int run_window(const WindowOptions& options);

}  // namespace kvloupe::shell
