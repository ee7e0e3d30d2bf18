#include "tests/selection/lane_loops.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvloupe::selection::testing {

std::vector<double> rotated(const Sequence& sequence, int kv_head, const float* row) {
  const int dim = sequence.shape.head_dim;
  const float* p = sequence.basis.layers.at(sequence.shape.layer).vectors.data() +
                   static_cast<std::ptrdiff_t>(kv_head) * dim * dim;
  std::vector<double> lanes(static_cast<std::size_t>(dim), 0.0);
  for (int lane = 0; lane < dim; ++lane)
    for (int c = 0; c < dim; ++c) lanes[lane] += static_cast<double>(row[c]) * p[c * dim + lane];
  return lanes;
}

std::vector<double> remembered(const Sequence& sequence, int kv_head, const double* row,
                               int stored) {
  const int dim = sequence.shape.head_dim;
  const float* p = sequence.basis.layers.at(sequence.shape.layer).value_vectors.data() +
                   static_cast<std::ptrdiff_t>(kv_head) * dim * dim;
  std::vector<double> result(static_cast<std::size_t>(dim), 0.0);
  for (int lane = 0; lane < stored; ++lane) {
    double value = 0;
    for (int c = 0; c < dim; ++c) value += row[c] * p[c * dim + lane];
    for (int c = 0; c < dim; ++c) result[c] += value * p[c * dim + lane];
  }
  return result;
}

std::vector<int> lanes_by_hand(const std::vector<double>& query, int usable, int kept,
                               bool leading) {
  std::vector<int> order(static_cast<std::size_t>(usable));
  std::iota(order.begin(), order.end(), 0);
  if (!leading)
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return std::abs(query[a]) > std::abs(query[b]); });
  order.resize(static_cast<std::size_t>(kept));
  return order;
}

}  // namespace kvloupe::selection::testing
