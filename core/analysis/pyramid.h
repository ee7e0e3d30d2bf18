// Min/max/mean pyramid of a matrix: a single kept key never vanishes when zoomed out.
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

struct PyramidLevel {
  std::int64_t row_step = 1;  // source rows per cell; columns likewise
  std::int64_t col_step = 1;
  Matrix min, max, mean;  // NaN-free unless all source values of a cell are NaN
};

// Level 0 is the source itself. Each next level halves the longer axis, or both while neither is
// twice the other, until one tile holds it: so a wide, low matrix keeps its rows while its columns
// shrink.
struct Pyramid {
  static constexpr std::int64_t kTileSide = 256;
  std::vector<PyramidLevel> levels;
  // Coarsest level that still gives at least one cell per screen pixel on both axes.
  const PyramidLevel& level_for(double rows_per_pixel, double cols_per_pixel) const;
};

Pyramid build_pyramid(Matrix source);

}  // namespace kvloupe::analysis
