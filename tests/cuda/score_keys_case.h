// A case of score_keys, and what it is by the definition in fp64: for the kernel in the emulator and on
// a GPU. Free of Torch and of any test library.
#pragma once

#include "core/cuda/score_keys.cuh"
#include "tests/cuda/case_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvloupe::cuda::testing {

struct ScoreShape {
  int kv_heads, group, slots, queries, keys, dim;
  // Floats before the first key, and rows between the heads' keys.
  int offset = 0, gap = 0;
  bool cosine = true, mean_of_queries = false, scores_first = false;

  int heads() const { return kv_heads * group; }
  std::int64_t key_head_stride() const { return std::int64_t{keys + gap} * dim; }
};

// All choices of the three options.
inline std::vector<ScoreShape> with_all_options(ScoreShape shape) {
  std::vector<ScoreShape> all;
  for (int option = 0; option < 8; ++option) {
    shape.cosine = (option & 1) == 0;
    shape.mean_of_queries = (option & 2) != 0;
    shape.scores_first = (option & 4) != 0;
    all.push_back(shape);
  }
  return all;
}

struct ScoreInputs {
  std::vector<float> q, k;
  std::vector<std::int32_t> chosen;
  explicit ScoreInputs(const ScoreShape& s)
      : q(random_numbers(static_cast<std::size_t>(s.heads()) * s.queries * s.dim, 4)),
        k(random_numbers(static_cast<std::size_t>(s.offset) +
                             static_cast<std::size_t>(s.kv_heads * s.key_head_stride()),
                         5)) {
    for (int i = 0; i < s.heads() * s.slots; ++i) chosen.push_back(i * 7 % s.queries);
    // One whose square is beyond fp32, and one without length.
    for (int c = 0; c < s.dim && s.keys > 2; ++c) {
      k[static_cast<std::size_t>(s.offset + s.dim + c)] *= 1e20F;
      k[static_cast<std::size_t>(s.offset + 2 * s.dim + c)] = 0;
    }
  }
};

// All of the problem but its pointers.
inline ScoreKeys problem_of(const ScoreShape& s) {
  ScoreKeys problem;
  problem.q_head_stride = std::int64_t{s.queries} * s.dim;
  problem.q_row_stride = s.dim;
  problem.k_head_stride = s.key_head_stride();
  problem.num_q_heads = s.heads();
  problem.num_kv_heads = s.kv_heads;
  problem.slots = s.slots;
  problem.num_keys = s.keys;
  problem.head_dim = s.dim;
  problem.cosine = s.cosine;
  problem.mean_of_queries = s.mean_of_queries;
  problem.scores_first = s.scores_first;
  return problem;
}

namespace detail {

using Row = std::vector<double>;

inline double length(const Row& row) {
  double square = 0;
  for (const double value : row) square += value * value;
  return std::max(std::sqrt(square), 1e-6);
}

inline double product(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t c = 0; c < a.size(); ++c) sum += a[c] * b[c];
  return sum;
}

inline Row mean(const std::vector<Row>& rows) {
  Row sum(rows.front().size(), 0);
  for (const Row& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c)
      sum[c] += row[c] / static_cast<double>(rows.size());
  return sum;
}

// The rows of each set that stand for the chunk before one KV head.
inline std::vector<std::vector<Row>> sets_of(const ScoreShape& s, const ScoreInputs& in,
                                             int kv_head) {
  std::vector<std::vector<Row>> of_heads;
  for (int head = kv_head * s.group; head < (kv_head + 1) * s.group; ++head) {
    std::vector<Row> rows;
    for (int slot = 0; slot < s.slots; ++slot) {
      const int query = in.chosen[static_cast<std::size_t>(head * s.slots + slot)];
      const float* from =
          in.q.data() + (static_cast<std::size_t>(head) * s.queries + query) * s.dim;
      Row row(from, from + s.dim);
      const double by = s.cosine ? length(row) : 1;
      for (double& value : row) value /= by;
      rows.push_back(row);
    }
    if (s.mean_of_queries) rows = {mean(rows)};
    of_heads.push_back(rows);
  }
  if (s.scores_first) return of_heads;
  std::vector<Row> merged;
  for (std::size_t slot = 0; slot < of_heads.front().size(); ++slot) {
    std::vector<Row> same_slot;
    for (const auto& rows : of_heads) same_slot.push_back(rows[slot]);
    merged.push_back(mean(same_slot));
  }
  return {merged};
}

}  // namespace detail

// The largest difference from the definition, relative where the score is large; infinite where a
// number is none.
inline double error_of(const ScoreShape& s, const ScoreInputs& in, const std::vector<float>& got) {
  double largest = 0;
  for (int kv_head = 0; kv_head < s.kv_heads; ++kv_head) {
    const auto sets = detail::sets_of(s, in, kv_head);
    for (int key = 0; key < s.keys; ++key) {
      const float* from = in.k.data() + s.offset + kv_head * s.key_head_stride() +
                          static_cast<std::ptrdiff_t>(key) * s.dim;
      const detail::Row row(from, from + s.dim);
      double sum = 0;
      for (const auto& rows : sets) {
        double best = -INFINITY;
        for (const auto& each : rows) best = std::max(best, detail::product(each, row));
        sum += best;
      }
      double score = sum / static_cast<double>(sets.size());
      if (s.cosine) score /= detail::length(row);
      const double by = 1 + std::abs(score);
      detail::note(got[static_cast<std::size_t>(kv_head) * s.keys + key] / by, score / by, largest);
    }
  }
  return largest;
}

inline constexpr double kScoreTolerance = 1e-5;

// Keys that fill tiles and that do not, several blocks, slots beyond one block of rows, channels that
// no vector holds, keys that lie askew, each size of head.
inline std::vector<ScoreShape> score_shapes() {
  return {{2, 3, 16, 40, 300, 64, 0, 9},  {1, 1, 16, 20, 31, 33},      {1, 4, 5, 9, 700, 128},
          {1, 2, 20, 30, 130, 256, 0, 0}, {2, 2, 3, 16, 65, 80, 1, 2}, {1, 1, 1, 1, 1, 2}};
}

}  // namespace kvloupe::cuda::testing
