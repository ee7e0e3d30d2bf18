// Cases of keep_best_rows, and what is kept by the definition: a stable sort. For the kernel in the
// emulator and on a GPU. Free of Torch and of any test library.
#pragma once

#include "core/cuda/keep_best.cuh"
#include "tests/cuda/case_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace kvloupe::cuda::testing {

struct BestShape {
  int rows, count, kept, gap = 0;
  double forced = -1;  // share of forced positions; less than 0: no marks
  int steps = 0;  // scores are so many steps of one value; 0: all differ; -1: zeros of both signs
  bool strange = false;  // with zeros of both signs, infinities and NaNs among them

  std::int64_t row_stride() const { return count + gap; }
};

struct BestInputs {
  std::vector<float> scores;
  std::vector<std::uint8_t> forced;
  explicit BestInputs(const BestShape& s)
      : scores(random_numbers(static_cast<std::size_t>(s.rows * s.row_stride()), 6)) {
    std::mt19937_64 random(7);
    for (float& score : scores)
      if (s.steps > 0) score = std::floor(score * static_cast<float>(s.steps)) / 8;
    if (s.steps < 0)
      for (float& score : scores) score = score > 0 ? 0.0F : -0.0F;
    if (s.strange) {
      constexpr float kInfinity = std::numeric_limits<float>::infinity();
      const float odd[] = {0.0F,           -0.0F,     std::nanf(""),
                           -std::nanf(""), kInfinity, -kInfinity,
                           1e-42F,         -1e-42F,   std::numeric_limits<float>::max()};
      for (std::size_t i = 0; i < scores.size(); i += 3) scores[i] = odd[random() % std::size(odd)];
    }
    if (s.forced < 0) return;
    for (int i = 0; i < s.count; ++i)
      forced.push_back(
          static_cast<double>(random() % 1000) < 1000 * s.forced ? std::uint8_t(1 + i % 2) : 0);
  }
};

struct BestResults {
  std::vector<std::int32_t> indices;
  std::vector<std::int64_t> num_forced, ties;
  bool operator==(const BestResults&) const = default;
};

// All of the problem but its pointers.
inline KeepBest problem_of(const BestShape& s) {
  KeepBest problem;
  problem.row_stride = s.row_stride();
  problem.rows = s.rows;
  problem.count = s.count;
  problem.kept = s.kept;
  return problem;
}

inline BestResults best_of(const BestShape& s, const BestInputs& in) {
  BestResults all;
  for (int row = 0; row < s.rows; ++row) {
    const float* scores = in.scores.data() + row * s.row_stride();
    const auto is_forced = [&](int i) {
      return !in.forced.empty() && in.forced[static_cast<std::size_t>(i)] != 0;
    };
    // Whether a ranks before b whatever their positions.
    const auto before = [&](int a, int b) {
      if (is_forced(a) != is_forced(b)) return is_forced(a);
      if (std::isnan(scores[a]) || std::isnan(scores[b]))
        return !std::isnan(scores[a]) && std::isnan(scores[b]);
      return scores[a] > scores[b];
    };
    std::vector<std::int32_t> order(static_cast<std::size_t>(s.count));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), before);
    const auto kept_end = order.begin() + s.kept;
    const std::int32_t last = *(kept_end - 1);
    all.ties.push_back(std::count_if(kept_end, order.end(),
                                     [&](int i) { return !before(last, i) && !before(i, last); }));
    all.num_forced.push_back(std::count_if(order.begin(), kept_end, is_forced));
    std::sort(order.begin(), kept_end);
    all.indices.insert(all.indices.end(), order.begin(), kept_end);
  }
  return all;
}

// Rows of both sizes of block, with and without their tail; all kept and one kept; marks of none, some,
// more than are kept, all; ties that reach over the cut.
inline std::vector<BestShape> best_shapes() {
  return {{3, 1000, 100},
          {1, 1, 1},
          {2, 33, 32, 5, 0.1},
          {1, 700, 700, 0, 0.3, 2},
          {2, 515, 77, 3, 0.5, 4, true},
          {2, 300, 40, 0, 0.0, 1, true},
          {2, 200, 90, 0, -1, -1},
          {1, 256, 255, 0, 1.0, 0, true},
          {2, 5003, 1200, 1, 0.05, 3},
          {1, 9000, 1024, 0, -1, 0, true},
          {1, 4097, 4000, 0, 0.99, 0},
          // Rows in parts: one launch after the first, several, one block that holds nothing.
          {2, 9001, 300, 3, 0.02, 5},
          {1, 20000, 1024, 0, -1, 0, true},
          {2, 40000, 900, 0, -1, 2},
          {1, 40000, 1024, 5, 0.3, 0},
          {2, 70000, 8000, 0, 0.05, 30, true},
          {1, 20000, 9000, 0, 0.2, 50}};
}

}  // namespace kvloupe::cuda::testing
