#include "core/analysis/pyramid.h"

#include "core/base/error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace kvloupe::analysis {
namespace {

constexpr float kNoValue = std::numeric_limits<float>::quiet_NaN();

// What a cell of a level knows of its source values. Count and sum are of the values themselves, so
// that the mean of a ragged edge is right.
struct Cells {
  std::int64_t rows = 0, cols = 0;
  std::vector<float> min, max;
  std::vector<double> sum;
  std::vector<std::int64_t> count;

  Cells(std::int64_t num_rows, std::int64_t num_cols)
      : rows(num_rows),
        cols(num_cols),
        min(num_rows * num_cols, kNoValue),
        max(min),
        sum(num_rows * num_cols, 0),
        count(num_rows * num_cols, 0) {}

  void merge(std::int64_t into, float low, float high, double total, std::int64_t values) {
    if (values == 0) return;
    if (count[into] == 0 || low < min[into]) min[into] = low;
    if (count[into] == 0 || high > max[into]) max[into] = high;
    sum[into] += total;
    count[into] += values;
  }
};

Cells cells_of(const Matrix& source) {
  Cells cells(source.rows, source.cols);
  for (std::size_t i = 0; i < source.values.size(); ++i) {
    const float value = source.values[i];
    cells.merge(static_cast<std::int64_t>(i), value, value, static_cast<double>(value),
                std::isnan(value) ? 0 : 1);
  }
  return cells;
}

Cells reduce(const Cells& fine, std::int64_t by_rows, std::int64_t by_cols) {
  Cells coarse((fine.rows + by_rows - 1) / by_rows, (fine.cols + by_cols - 1) / by_cols);
  for (std::int64_t row = 0; row < fine.rows; ++row) {
    for (std::int64_t col = 0; col < fine.cols; ++col) {
      const std::int64_t from = row * fine.cols + col;
      coarse.merge(row / by_rows * coarse.cols + col / by_cols, fine.min[from], fine.max[from],
                   fine.sum[from], fine.count[from]);
    }
  }
  return coarse;
}

PyramidLevel level_of(const Cells& cells, std::int64_t row_step, std::int64_t col_step) {
  PyramidLevel level;
  level.row_step = row_step;
  level.col_step = col_step;
  level.min = {cells.rows, cells.cols, cells.min};
  level.max = {cells.rows, cells.cols, cells.max};
  level.mean = {cells.rows, cells.cols, std::vector<float>(cells.count.size(), kNoValue)};
  for (std::size_t i = 0; i < cells.count.size(); ++i) {
    if (cells.count[i] > 0) {
      level.mean.values[i] = static_cast<float>(cells.sum[i] / static_cast<double>(cells.count[i]));
    }
  }
  return level;
}

}  // namespace

Pyramid build_pyramid(Matrix source) {
  KVLOUPE_CHECK(source.rows >= 0 && source.cols >= 0);
  KVLOUPE_CHECK(static_cast<std::int64_t>(source.values.size()) == source.rows * source.cols);
  Cells cells = cells_of(source);
  Pyramid pyramid;
  pyramid.levels.push_back({1, 1, source, source, std::move(source)});
  std::int64_t row_step = 1, col_step = 1;
  while (cells.rows > Pyramid::kTileSide || cells.cols > Pyramid::kTileSide) {
    const std::int64_t by_rows = cells.cols >= 2 * cells.rows ? 1 : 2;
    const std::int64_t by_cols = cells.rows >= 2 * cells.cols ? 1 : 2;
    cells = reduce(cells, by_rows, by_cols);
    row_step *= by_rows;
    col_step *= by_cols;
    pyramid.levels.push_back(level_of(cells, row_step, col_step));
  }
  return pyramid;
}

const PyramidLevel& Pyramid::level_for(double rows_per_pixel, double cols_per_pixel) const {
  KVLOUPE_CHECK(!levels.empty());
  const auto fits = [&](const PyramidLevel& level) {
    return static_cast<double>(level.row_step) <= std::max(rows_per_pixel, 1.0) &&
           static_cast<double>(level.col_step) <= std::max(cols_per_pixel, 1.0);
  };
  const auto coarsest = std::find_if(levels.rbegin(), levels.rend(), fits);
  return coarsest == levels.rend() ? levels.front() : *coarsest;
}

}  // namespace kvloupe::analysis
