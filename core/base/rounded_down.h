// Shares of counts as whole numbers.
#pragma once

#include <cmath>

namespace kvloupe {

// The whole number at or below a product such as share * count, which may fall short of a whole
// number by an error of rounding: 0.29 * 100 is 29, not 28.
inline double rounded_down(double product) { return std::floor(product + 1e-9); }

}  // namespace kvloupe
