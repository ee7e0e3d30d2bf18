// The window of the program.
#pragma once

#include "app/state/view_state.h"
#include "core/base/memory_account.h"
#include "core/selection/spec/basis_maker.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::shell {

struct WindowOptions {
  std::vector<std::string> traces;
  std::string tour;                    // a file to open; empty: none
  std::optional<state::ViewState> at;  // what they are opened at; nothing: where they were left
  MemoryAccountPtr memory = std::make_shared<MemoryAccount>();
  std::function<void()> start_engine;  // that of state::Answers
  selection::BasisMaker bases = {};    // asked once the engine runs
};

// Runs until the user closes the window. Throws Error{Input} when there is no display.
int run_window(const WindowOptions& options);

}  // namespace kvloupe::shell
