// Text from outside (traces, models, file names, arguments) made fit to be shown.
#pragma once

#include <string>
#include <string_view>

namespace kvloupe {

// Valid UTF-8 that moves no cursor: control characters, line ends too, invalid bytes, unassigned
// code points and the marks that turn the direction of writing stand as their bytes, "\x1B".
std::string printable(std::string_view text);
// The same of several lines: their ends remain.
std::string printable_lines(std::string_view text);

}  // namespace kvloupe
