// Reads the words of a call by the commands' own description.
#pragma once

#include "app/cli/command.h"

#include <functional>

namespace kvloupe::cli {

// Prints help or the version, or runs the command that the words name: a subcommand, or `program` itself.
// `before_any` is called first, once the words are known to be right. Throws Error{Usage} where they are wrong.
void run_command_line(const Command& program, int argc, char** argv,
                      const std::function<void(const Given&)>& before_any);

}  // namespace kvloupe::cli
