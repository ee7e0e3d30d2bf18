// Option values that several subcommands read the same way (all throw Error{Usage}), and what they
// say alike.
#pragma once

#include "core/trace/trace_types.h"

#include <optional>
#include <string>
#include <vector>

namespace kvloupe::cli {

// "all" is nothing, "7" is 7.
std::optional<int> parse_index_or_all(const std::string& option, const std::string& text);
// "3-5" is 3, 4, 5; "7" is 7 alone.
std::vector<int> parse_index_range(const std::string& option, const std::string& text);

// Says what of the file cannot be read and is left out, or read otherwise than it stands there.
void report_damage(const trace::TraceInfo& info);

}  // namespace kvloupe::cli
