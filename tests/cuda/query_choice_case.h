// Cases of query_relevance and ranked_rows, and what they are by their definitions: cosines in fp64, a
// stable sort. For the kernels in the emulator and on a GPU. Free of Torch and of any test library.
#pragma once

#include "core/cuda/query_choice.cuh"
#include "tests/cuda/case_numbers.h"
#include "tests/cuda/typed_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace kvloupe::cuda::testing {

struct RelevanceShape {
  int heads, rows, dim, gap = 0;  // gap: numbers between rows
  NumberType type = NumberType::Fp32;

  std::int64_t row_stride() const { return dim + gap; }
  std::int64_t head_stride() const { return rows * row_stride(); }
};

inline std::vector<RelevanceShape> relevance_shapes() {
  return in_all_types<RelevanceShape>(
      {{3, 128, 128}, {2, 40, 64, 3}, {1, 1, 33}, {2, 17, 256}, {4, 5, 1}, {1, 300, 80, 8}});
}

template <template <typename> typename Array>
class PlacedRelevance {
 public:
  explicit PlacedRelevance(const RelevanceShape& shape)
      : PlacedRelevance(shape, numbers_of(shape)) {}
  PlacedRelevance(const RelevanceShape& shape, const std::vector<float>& numbers)
      : shape_(shape),
        numbers_(numbers),
        q_(numbers, shape.type),
        relevance_(static_cast<std::size_t>(shape.heads) * shape.rows) {}
  PlacedRelevance in_fp32() const { return {in_type(shape_, NumberType::Fp32), numbers_}; }

  cudaError_t launch() const {
    QueryRelevance problem;
    problem.type = shape_.type;
    problem.q = q_.data();
    problem.head_stride = shape_.head_stride();
    problem.row_stride = shape_.row_stride();
    problem.heads = shape_.heads;
    problem.rows = shape_.rows;
    problem.dim = shape_.dim;
    problem.relevance = relevance_.data();
    return launch_query_relevance(problem, nullptr);
  }
  std::vector<float> results() const {  // each fp64 number as two of fp32: its bits count
    std::vector<float> halves;
    for (const double value : relevance_.copy()) {
      halves.push_back(static_cast<float>(value));
      halves.push_back(static_cast<float>(value - static_cast<double>(static_cast<float>(value))));
    }
    return halves;
  }
  // In parts of 1e-13: sums of fp64 in another order.
  double error(const std::vector<float>& got) const {
    double largest = 0;
    for (int head = 0; head < shape_.heads; ++head) {
      std::vector<double> mean(static_cast<std::size_t>(shape_.dim), 0);
      for (int row = 0; row < shape_.rows; ++row)
        for (int c = 0; c < shape_.dim; ++c)
          mean[static_cast<std::size_t>(c)] += at(head, row, c) / shape_.rows;
      double mean_square = 0;
      for (const double value : mean) mean_square += value * value;
      for (int row = 0; row < shape_.rows; ++row) {
        double product = 0, square = 0;
        for (int c = 0; c < shape_.dim; ++c) {
          product += mean[static_cast<std::size_t>(c)] * at(head, row, c);
          square += at(head, row, c) * at(head, row, c);
        }
        const double want =
            -product / (std::max(std::sqrt(mean_square), 1e-6) * std::max(std::sqrt(square), 1e-6));
        const auto i = 2 * (static_cast<std::size_t>(head) * shape_.rows + row);
        detail::note(static_cast<double>(got[i]) + static_cast<double>(got[i + 1]), want, largest,
                     1e-13);
      }
    }
    return largest;
  }
  std::size_t bytes() const { return size_of(shape_.type) * numbers_.size(); }

 private:
  // With a query without length.
  static std::vector<float> numbers_of(const RelevanceShape& shape) {
    auto numbers = random_numbers(static_cast<std::size_t>(shape.heads * shape.head_stride()), 11);
    if (shape.rows > 3) std::fill_n(numbers.begin() + 2 * shape.row_stride(), shape.dim, 0.0F);
    return rounded(numbers, shape.type);
  }
  double at(int head, int row, int channel) const {
    return numbers_[static_cast<std::size_t>(head * shape_.head_stride() +
                                             row * shape_.row_stride() + channel)];
  }

  RelevanceShape shape_;
  std::vector<float> numbers_;
  Numbers<Array> q_;
  Array<double> relevance_;
};

struct RankedShape {
  int rows, count, kept;
  bool wide = false;  // scores in fp64
};

inline std::vector<RankedShape> ranked_shapes() {
  return {{3, 128, 16, true}, {2, 128, 128}, {1, 1, 1}, {2, 700, 33}, {1, kMostRanked, 20, true}};
}

template <template <typename> typename Array>
class PlacedRanks {
 public:
  explicit PlacedRanks(const RankedShape& shape)
      : shape_(shape),
        scores_(scores_of(shape)),
        narrow_(scores_),
        wide_(std::vector<double>(scores_.begin(), scores_.end())),
        indices_(static_cast<std::size_t>(shape.rows) * shape.kept) {}

  cudaError_t launch() const {
    RankedRows problem;
    if (shape_.wide)
      problem.wide_scores = wide_.data();
    else
      problem.scores = narrow_.data();
    problem.row_stride = problem.count = shape_.count;
    problem.rows = shape_.rows;
    problem.kept = shape_.kept;
    problem.indices = indices_.data();
    return launch_ranked_rows(problem, nullptr);
  }
  std::vector<std::int32_t> results() const { return indices_.copy(); }
  std::vector<std::int32_t> wanted() const {
    std::vector<std::int32_t> all;
    for (int row = 0; row < shape_.rows; ++row) {
      const float* scores = scores_.data() + static_cast<std::ptrdiff_t>(row) * shape_.count;
      std::vector<std::int32_t> order(static_cast<std::size_t>(shape_.count));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
        if (std::isnan(scores[a]) || std::isnan(scores[b]))
          return !std::isnan(scores[a]) && std::isnan(scores[b]);
        return scores[a] > scores[b];
      });
      all.insert(all.end(), order.begin(), order.begin() + shape_.kept);
    }
    return all;
  }
  double error(const std::vector<std::int32_t>& got) const {
    return got == wanted() ? 0 : INFINITY;
  }
  std::size_t bytes() const { return sizeof(double) * scores_.size(); }

 private:
  // Ties, both zeros, infinities and NaNs among them.
  static std::vector<float> scores_of(const RankedShape& shape) {
    auto scores = random_numbers(static_cast<std::size_t>(shape.rows) * shape.count, 12);
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const float odd[] = {0.0F, -0.0F, std::nanf(""), kInfinity, -kInfinity, 0.5F};
    for (std::size_t i = 0; i < scores.size(); i += 4) scores[i] = odd[i / 4 % std::size(odd)];
    return scores;
  }

  RankedShape shape_;
  std::vector<float> scores_;
  Array<float> narrow_;
  Array<double> wide_;
  Array<std::int32_t> indices_;
};

}  // namespace kvloupe::cuda::testing
