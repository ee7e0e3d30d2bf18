// Option values that several subcommands read the same way. All throw Error{Usage}.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace kvloupe::cli {

// "all" is nothing, "7" is 7.
std::optional<int> parse_index_or_all(const std::string& option, const std::string& text);
// "3-5" is 3, 4, 5; "7" is 7 alone.
std::vector<int> parse_index_range(const std::string& option, const std::string& text);

}  // namespace kvloupe::cli
