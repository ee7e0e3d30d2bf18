// How wide text is in a terminal.
#pragma once

#include <cstddef>
#include <string_view>

namespace kvloupe {

// Of printable text (core/base/printable.h): the columns that it takes, and how many of its bytes fit so many.
std::size_t display_width(std::string_view text);
std::size_t bytes_that_fit(std::string_view text, std::size_t width);

}  // namespace kvloupe
