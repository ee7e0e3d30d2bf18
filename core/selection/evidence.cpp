#include "core/selection/evidence.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvloupe::selection {

std::optional<std::int64_t> RowEvidence::unit_of(std::int64_t position) const {
  const auto after = std::upper_bound(begin.begin(), begin.end(), position);
  if (after == begin.begin()) return std::nullopt;
  const std::int64_t unit = after - begin.begin() - 1;
  return position < end_of(unit) ? std::optional(unit) : std::nullopt;
}

std::int64_t RowEvidence::units_needed(std::int64_t unit) const {
  if (unites_choices) return static_cast<std::int64_t>(-scores[static_cast<std::size_t>(unit)]);
  const std::vector<std::int32_t> best = order();
  return std::find(best.begin(), best.end(), unit) - best.begin() + 1;
}

std::vector<std::int32_t> RowEvidence::order() const {
  std::vector<std::int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    if (is_forced(a) != is_forced(b)) return is_forced(a);
    const double x = scores[static_cast<std::size_t>(a)], y = scores[static_cast<std::size_t>(b)];
    if (std::isnan(x) || std::isnan(y)) return !std::isnan(x) && std::isnan(y);
    return x > y;
  });
  return order;
}

std::optional<double> RowEvidence::cut() const {
  if (!was_cut()) return std::nullopt;
  const std::vector<std::int32_t> best = order();
  if (num_kept == 0 || is_forced(best[static_cast<std::size_t>(num_kept - 1)])) return std::nullopt;
  return scores[static_cast<std::size_t>(best[static_cast<std::size_t>(num_kept - 1)])];
}

RowEvidence evidence_of_keys(std::int64_t first, std::span<const float> scores,
                             std::int64_t num_kept) {
  RowEvidence evidence;
  evidence.begin.resize(scores.size());
  std::iota(evidence.begin.begin(), evidence.begin.end(), static_cast<std::int32_t>(first));
  evidence.scores.assign(scores.begin(), scores.end());
  evidence.num_kept = num_kept;
  return evidence;
}

}  // namespace kvloupe::selection
