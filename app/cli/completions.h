// What a shell completes after `kvloupe`: subcommands, options and the words that an option takes.
#pragma once

#include "app/cli/command.h"

#include <string>
#include <string_view>

namespace kvloupe::cli {

inline constexpr const char* kShells[] = {"bash", "zsh", "fish"};

// The script that the shell reads. Files are completed wherever nothing else is known.
std::string completions_for(const Command& program, std::string_view shell);

}  // namespace kvloupe::cli
