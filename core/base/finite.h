// Whether arrays of a file or of a caller hold numbers that can be computed with.
#pragma once

#include <span>

namespace kvloupe {

// No NaN and no infinity among them.
bool all_finite(std::span<const float> values);

}  // namespace kvloupe
