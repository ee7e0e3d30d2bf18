#include "core/analysis/power_tail.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvloupe::analysis {

Ranking rank(const std::vector<double>& values) {
  Ranking ranking;
  ranking.item.resize(values.size());
  std::iota(ranking.item.begin(), ranking.item.end(), 0);
  std::stable_sort(ranking.item.begin(), ranking.item.end(), [&](std::int32_t a, std::int32_t b) {
    return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
  });
  ranking.rank.resize(values.size());
  for (std::size_t r = 0; r < values.size(); ++r) {
    const auto item = static_cast<std::size_t>(ranking.item[r]);
    ranking.value.push_back(values[item]);
    ranking.rank[item] = static_cast<std::int32_t>(r);
  }
  return ranking;
}

double PowerTail::at(double rank) const {
  return base * std::pow(rank / static_cast<double>(top + 1), -1 / index);
}

std::optional<PowerTail> hill_tail(const std::vector<double>& falling) {
  if (falling.size() < 2) return std::nullopt;
  PowerTail tail;
  const auto n = static_cast<double>(falling.size());
  tail.top = static_cast<std::int64_t>(std::sqrt(n));
  tail.base = falling[static_cast<std::size_t>(tail.top)];
  if (!(tail.base > 0)) return std::nullopt;
  double sum = 0;
  for (std::int64_t i = 0; i < tail.top; ++i)
    sum += std::log(falling[static_cast<std::size_t>(i)] / tail.base);
  if (!(sum > 0)) return std::nullopt;
  tail.index = static_cast<double>(tail.top) / sum;
  return tail;
}

std::int64_t count_holding_half(const std::vector<double>& falling) {
  const double sum = std::accumulate(falling.begin(), falling.end(), 0.0);
  if (!(sum > 0)) return 0;
  double held = 0;
  std::int64_t count = 0;
  while (held < sum / 2) held += falling[static_cast<std::size_t>(count++)];
  return count;
}

}  // namespace kvloupe::analysis
