#include "core/analysis/budget_sweep.h"

#include <map>

namespace kvloupe::analysis {
namespace {

using replay::CompareRow;

bool speaks_for(const CompareRow& row, const SweepScope& scope) {
  if (row.phase != (scope.phase == trace::Phase::Prefill ? "prefill" : "decode")) return false;
  return scope.kv_head ? row.scope == "kv_head" && row.index == *scope.kv_head : row.scope == "all";
}

SweepPoint point_of(const CompareRow& row) {
  SweepPoint point;
  point.spec = row.method;
  point.numbers = row.numbers;
  point.cells = row.cells;
  point.dense_cells = row.fallback_cells;
  point.leakage = row.basis && row.basis->leakage;
  return point;
}

}  // namespace

SweepPass sweep_pass(const session::TraceSession& session,
                     const std::vector<selection::MethodSpec>& specs, const SweepScope& scope,
                     const WorkContext& context) {
  replay::ReplayRequest request{specs.front(), scope.layers, scope.counted.chunks, {},
                                true,          true,         scope.device};
  replay::CompareOptions options;
  options.counted = scope.counted;
  replay::Comparison comparison =
      replay::compare_methods(session, {specs.begin(), specs.end()}, request, options, context);
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
      replay::recorded_run(session, run, scope.layers, scope.counted.chunks, true, true, context);
  for (const CompareRow& row : replay::summarise(result, session, scope.counted))
    if (speaks_for(row, scope)) return point_of(row);
  SweepPoint nothing;
  nothing.spec = result.method;
  return nothing;
}

}  // namespace kvloupe::analysis
