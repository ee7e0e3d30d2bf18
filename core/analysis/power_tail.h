// How values fall by their rank, and the power law that they follow. Without Torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace kvloupe::analysis {

// Values by rank, the largest first, equal ones in their order.
struct Ranking {
  std::vector<std::int32_t> item;  // index of the value
  std::vector<double> value;       // falling
  std::vector<std::int32_t> rank;  // by item, from 0

  std::size_t size() const { return item.size(); }
};
Ranking rank(const std::vector<double>& values);

// A power law through the k = floor(sqrt(n)) largest of n values, by Hill's estimator:
//   index = k / (sum over i = 1 .. k of ln(x_i / x_(k+1))),   x_1 >= x_2 >= ...
// The share of values above x falls as x^-index, so the value of rank r is about
// x_(k+1) (r / (k + 1))^(-1 / index). The smaller the index, the heavier the tail: below 2 the
// variance is unbounded, below 1 the mean.
struct PowerTail {
  double index = 0;
  std::int64_t top = 0;  // k
  double base = 0;       // x_(k+1)

  double at(double rank) const;  // from 1
};
// Nothing where it is not defined: n < 2, x_(k+1) <= 0, or the k + 1 largest are equal.
std::optional<PowerTail> hill_tail(const std::vector<double>& falling);

// The smallest number of the largest values that hold half of the sum; 0 where the sum is 0.
std::int64_t count_holding_half(const std::vector<double>& falling);

}  // namespace kvloupe::analysis
