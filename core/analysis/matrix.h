// A table of numbers without Torch, as views draw it.
#pragma once

#include <cstdint>
#include <vector>

namespace kvloupe::analysis {

struct Matrix {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<float> values;  // row-major; NaN where there is no value (above the diagonal)

  float at(std::int64_t row, std::int64_t col) const { return values[row * cols + col]; }
};

}  // namespace kvloupe::analysis
