// Files that methods need, made for a sequence's shape: the same weights and patterns in every head,
// so that heads can be swapped.
#pragma once

#include "tests/selection/sequences.h"

#include <string>

namespace kvloupe::selection::testing {

// `spec` with "gate=FILE" and "config=FILE" replaced by files for this shape.
std::string with_files(std::string spec, const Sequence& sequence);

}  // namespace kvloupe::selection::testing
