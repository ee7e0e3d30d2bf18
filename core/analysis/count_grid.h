// A map of chunks and keys reduced to a small grid: of each cell how many keys are what, so that one
// kept key in a thousand still shows.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvloupe::analysis {

template <int N>
struct CountGrid {
  int rows = 0;
  int cols = 0;
  std::vector<std::array<std::int32_t, N>> counts;  // [rows * cols], of each kind
};

// `cells` are [num_chunks, num_tokens], each one of N kinds.
template <int N, typename Kind>
CountGrid<N> reduced(const std::vector<Kind>& cells, std::int64_t num_chunks,
                     std::int32_t num_tokens, int max_rows, int max_cols) {
  CountGrid<N> grid;
  grid.rows = static_cast<int>(std::min<std::int64_t>(num_chunks, max_rows));
  grid.cols = std::min(num_tokens, max_cols);
  grid.counts.resize(static_cast<std::size_t>(grid.rows) * static_cast<std::size_t>(grid.cols));
  std::size_t cell = 0;
  for (std::int64_t chunk = 0; chunk < num_chunks; ++chunk) {
    const std::int64_t row = chunk * grid.rows / num_chunks;
    for (std::int32_t token = 0; token < num_tokens; ++token, ++cell) {
      const std::int64_t col = static_cast<std::int64_t>(token) * grid.cols / num_tokens;
      ++grid.counts[static_cast<std::size_t>(row * grid.cols + col)]
                   [static_cast<std::size_t>(cells[cell])];
    }
  }
  return grid;
}

}  // namespace kvloupe::analysis
