#include "core/analysis/budget_sweep.h"

#include "core/base/error.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace kvloupe::analysis {
namespace {

using replay::CompareRow;

bool speaks_for(const CompareRow& row, const SweepScope& scope) {
  if (row.phase != "prefill") return false;
  return scope.kv_head ? row.scope == "kv_head" && row.index == *scope.kv_head : row.scope == "all";
}

SweepPoint point_of(const CompareRow& row) {
  SweepPoint point;
  point.spec = row.method;
  point.kept = row.effective_budget.value_or(SweepPoint::kUnknown);
  point.mass_recall = row.mass_recall.value_or(SweepPoint::kUnknown);
  point.topk_overlap = row.topk_overlap.value_or(SweepPoint::kUnknown);
  point.output_error = row.output_error.value_or(SweepPoint::kUnknown);
  point.cells = row.cells;
  point.dense_cells = row.fallback_cells;
  point.leakage = row.basis && row.basis->leakage;
  return point;
}

}  // namespace

const char* name_of(SweepMetric metric) {
  switch (metric) {
    case SweepMetric::MassRecall:
      return "mass_recall";
    case SweepMetric::TopkOverlap:
      return "topk_overlap";
    case SweepMetric::OutputError:
      return "output_error";
  }
  fail_check("a known metric", __FILE__, __LINE__);
}

bool reaches(SweepMetric metric, double value, const SweepTarget& target) {
  return metric == SweepMetric::OutputError ? value <= target.error : value >= target.share;
}

double SweepPoint::value(SweepMetric metric) const {
  switch (metric) {
    case SweepMetric::MassRecall:
      return mass_recall;
    case SweepMetric::TopkOverlap:
      return topk_overlap;
    case SweepMetric::OutputError:
      return output_error;
  }
  fail_check("a known metric", __FILE__, __LINE__);
}

SweepPass sweep_pass(const session::TraceSession& session,
                     const std::vector<selection::MethodSpec>& specs, const SweepScope& scope,
                     const WorkContext& context) {
  replay::ReplayRequest request{specs.front(), scope.layers, {}, {}, true, true};
  replay::Comparison comparison = replay::compare_methods(session, specs, request, context);
  SweepPass pass;
  pass.unavailable = std::move(comparison.unavailable);
  for (const CompareRow& row : comparison.rows)
    if (speaks_for(row, scope)) pass.points.push_back(point_of(row));
  std::map<std::string, std::int64_t> budgets;
  for (const selection::MethodSpec& spec : specs)
    if (spec.has_budget()) budgets[spec.canonical()] = spec.budget_tokens();
  for (SweepPoint& point : pass.points) point.budget = budgets[point.spec];
  return pass;
}

SweepPoint sweep_point_of_run(const session::TraceSession& session, int run,
                              const SweepScope& scope, const WorkContext& context) {
  const replay::ReplayResult result =
      replay::recorded_run(session, run, scope.layers, std::nullopt, true, true, context);
  for (const CompareRow& row : replay::summarise(result, session))
    if (speaks_for(row, scope)) return point_of(row);
  SweepPoint nothing;
  nothing.spec = result.method;
  return nothing;
}

std::int64_t longest_past(const trace::TraceInfo& info) {
  std::int64_t longest = 0;
  for (const trace::ChunkInfo& chunk : info.chunks)
    if (chunk.phase == trace::Phase::Prefill)
      longest = std::max(longest, static_cast<std::int64_t>(chunk.begin));
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

std::optional<SweepBracket> reached_from(const std::vector<SweepPoint>& points, SweepMetric metric,
                                         const SweepTarget& target) {
  std::optional<SweepBracket> bracket;
  for (auto point = points.rbegin(); point != points.rend(); ++point) {
    if (!reaches(metric, point->value(metric), target)) {
      if (bracket) bracket->below = point->budget;
      return bracket;
    }
    bracket = SweepBracket{0, point->budget};
  }
  return bracket;
}

}  // namespace kvloupe::analysis
