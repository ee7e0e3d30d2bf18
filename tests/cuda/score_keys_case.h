// A case of score_keys, and what it is by the definition in fp64: for the kernel in the emulator and on
// a GPU, in fp32, fp16 and bf16. Free of Torch and of any test library.
#pragma once

#include "core/cuda/score_keys.cuh"
#include "tests/cuda/case_numbers.h"
#include "tests/cuda/typed_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvloupe::cuda::testing {

struct ScoreShape {
  int kv_heads, group, slots, queries, keys, dim;
  // Numbers before the first key, and rows between the heads' keys.
  int offset = 0, gap = 0;
  bool cosine = true, mean_of_queries = false, scores_first = false;
  NumberType type = NumberType::Fp32;

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

// Numbers of the shape's type, as fp32.
struct ScoreInputs {
  std::vector<float> q, k;
  std::vector<std::int32_t> chosen;
  explicit ScoreInputs(const ScoreShape& s)
      : q(random_numbers(static_cast<std::size_t>(s.heads()) * s.queries * s.dim, 4)),
        k(random_numbers(static_cast<std::size_t>(s.offset) +
                             static_cast<std::size_t>(s.kv_heads * s.key_head_stride()),
                         5)) {
    for (int i = 0; i < s.heads() * s.slots; ++i) chosen.push_back(i * 7 % s.queries);
    // One whose square is beyond fp32, where the type has such numbers, and one without length.
    const float large = s.type == NumberType::Fp16 ? 0x1p13F : 1e20F;
    for (int c = 0; c < s.dim && s.keys > 2; ++c) {
      k[static_cast<std::size_t>(s.offset + s.dim + c)] *= large;
      k[static_cast<std::size_t>(s.offset + 2 * s.dim + c)] = 0;
    }
    q = rounded(q, s.type);
    k = rounded(k, s.type);
  }
};

// All of the problem but its pointers.
inline ScoreKeys problem_of(const ScoreShape& s) {
  ScoreKeys problem;
  problem.type = s.type;
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

// A product and the sum of the sizes of its terms, of which rounding errors are parts.
struct Product {
  double value = 0, size = 0;
};
inline Product product(const Row& a, const Row& b) {
  Product sum;
  for (std::size_t c = 0; c < a.size(); ++c) {
    sum.value += a[c] * b[c];
    sum.size += std::abs(a[c] * b[c]);
  }
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

// The largest difference from the definition, in parts of what is tolerated: of the sizes that were summed
// as many roundings of fp32 as dim errors of either sign add up to, and four of rows, lengths and the
// quotient. Infinite where a number is NaN.
inline double error_of(const ScoreShape& s, const ScoreInputs& in, const std::vector<float>& got) {
  double largest = 0;
  for (int kv_head = 0; kv_head < s.kv_heads; ++kv_head) {
    const auto sets = detail::sets_of(s, in, kv_head);
    for (int key = 0; key < s.keys; ++key) {
      const float* from = in.k.data() + s.offset + kv_head * s.key_head_stride() +
                          static_cast<std::ptrdiff_t>(key) * s.dim;
      const detail::Row row(from, from + s.dim);
      double sum = 0, size = 0;
      for (const auto& rows : sets) {
        double best = -INFINITY, largest_size = 0;
        for (const auto& each : rows) {
          const detail::Product found = detail::product(each, row);
          best = std::max(best, found.value);
          largest_size = std::max(largest_size, found.size);
        }
        sum += best;
        size += largest_size;
      }
      const double by = static_cast<double>(sets.size()) * (s.cosine ? detail::length(row) : 1);
      const double roundings = 4 + std::sqrt(static_cast<double>(s.dim));
      // A key without length has no error.
      const double tolerated = std::max(roundings * 0x1p-24 * size / by, 1e-30);
      detail::note(got[static_cast<std::size_t>(kv_head) * s.keys + key], sum / by, largest,
                   tolerated);
    }
  }
  return largest;
}

// The case with its numbers where kernels reach them: Array<T>(vector) and Array<T>(count) have data()
// and copy().
template <template <typename> typename Array>
class PlacedScores {
 public:
  explicit PlacedScores(const ScoreShape& shape) : PlacedScores(shape, ScoreInputs(shape)) {}
  PlacedScores(const ScoreShape& shape, const ScoreInputs& inputs)
      : shape_(shape),
        inputs_(inputs),
        q_(inputs.q, shape.type),
        k_(inputs.k, shape.type),
        chosen_(inputs.chosen),
        rows_(problem_of(shape).room_for_rows()),
        scores_(static_cast<std::size_t>(shape.kv_heads) * shape.keys) {}
  // The same numbers.
  PlacedScores in_fp32() const { return {in_type(shape_, NumberType::Fp32), inputs_}; }

  cudaError_t launch() const {
    ScoreKeys problem = problem_of(shape_);
    problem.q = q_.data();
    problem.k = k_.data(static_cast<std::size_t>(shape_.offset));
    problem.chosen = chosen_.data();
    problem.rows = rows_.data();
    problem.scores = scores_.data();
    return launch_score_keys(problem, nullptr);
  }
  std::vector<float> results() const { return scores_.copy(); }
  // In parts of what is tolerated.
  double error(const std::vector<float>& got) const { return error_of(shape_, inputs_, got); }
  // Of the keys, read once, and of the scores.
  std::size_t bytes() const {
    return size_of(shape_.type) * inputs_.k.size() +
           sizeof(float) * static_cast<std::size_t>(shape_.kv_heads) * shape_.keys;
  }

 private:
  ScoreShape shape_;
  ScoreInputs inputs_;
  Numbers<Array> q_, k_;
  Array<std::int32_t> chosen_;
  Array<float> rows_, scores_;
};

// Keys that fill tiles and that do not, several blocks, slots beyond one block of rows, channels that
// no vector holds, or none of 16 bits, keys that lie askew, each size of head. In all types.
inline std::vector<ScoreShape> score_shapes() {
  return in_all_types<ScoreShape>({{2, 3, 16, 40, 300, 64, 0, 9},
                                   {1, 1, 16, 20, 31, 33},
                                   {1, 4, 5, 9, 700, 128},
                                   {1, 2, 20, 30, 130, 256, 0, 0},
                                   {2, 2, 3, 16, 65, 80, 1, 2},
                                   {1, 2, 4, 7, 70, 20},
                                   {1, 1, 1, 1, 1, 2}});
}

}  // namespace kvloupe::cuda::testing
