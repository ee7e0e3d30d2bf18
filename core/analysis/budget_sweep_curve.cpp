// What budget_sweep.h says of budgets and curves, without computing any. Free of Torch.
#include "core/analysis/budget_sweep.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvloupe::analysis {

double goal_of(replay::Number number, const SweepTarget& target) {
  if (number == replay::Number::SpanKept) return target.span;
  return replay::info_of(number).is_share() ? target.share : target.error;
}

bool reaches(replay::Number number, double value, const SweepTarget& target) {
  const double goal = goal_of(number, target);
  return replay::info_of(number).higher_is_better() ? value >= goal : value <= goal;
}

double SweepPoint::value(replay::Number number) const {
  return numbers[number].value_or(std::numeric_limits<double>::quiet_NaN());
}

std::int64_t longest_past(const trace::TraceInfo& info, const std::vector<int>& chunks,
                          trace::Phase phase) {
  std::int64_t longest = 0;
  const auto look_at = [&](const trace::ChunkInfo& chunk) {
    if (chunk.phase == phase) longest = std::max(longest, static_cast<std::int64_t>(chunk.begin));
  };
  for (const int chunk : chunks) look_at(info.chunks.at(static_cast<std::size_t>(chunk)));
  if (chunks.empty()) std::for_each(info.chunks.begin(), info.chunks.end(), look_at);
  return longest;
}

std::vector<std::int64_t> coarse_budgets(std::int64_t past) {
  std::int64_t first = 16;
  while (first > 1 && first * 4 > past) first /= 2;
  std::vector<std::int64_t> budgets;
  for (std::int64_t budget = first; budget < past; budget *= 2) budgets.push_back(budget);
  return budgets;
}

std::vector<std::int64_t> finer_budgets(std::int64_t past) {
  const std::vector<std::int64_t> coarse = coarse_budgets(past);
  std::vector<std::int64_t> budgets;
  for (const std::int64_t budget : coarse) {
    const std::int64_t halfway = std::llround(static_cast<double>(budget) * std::sqrt(2.0));
    if (halfway > budget && halfway < std::min(2 * budget, past)) budgets.push_back(halfway);
  }
  const std::int64_t last = past - 1;
  if (!coarse.empty() && last > coarse.back() && (budgets.empty() || last > budgets.back()))
    budgets.push_back(last);
  return budgets;
}

std::optional<SweepBracket> reached_from(const std::vector<SweepPoint>& points,
                                         replay::Number number, const SweepTarget& target) {
  std::optional<SweepBracket> bracket;
  for (auto point = points.rbegin(); point != points.rend(); ++point) {
    if (!reaches(number, point->value(number), target)) {
      if (bracket) bracket->below = point->budget;
      return bracket;
    }
    bracket = SweepBracket{0, point->budget};
  }
  return bracket;
}

}  // namespace kvloupe::analysis
