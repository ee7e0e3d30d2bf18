// The version of the program, as CMake knows it.
#pragma once

#include <string>

namespace kvloupe {

std::string version();  // "0.1.0"

}  // namespace kvloupe
