#include "core/replay/sweep.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace kvloupe::replay {

Comparison compare_sweep(const session::TraceSession& session, const SweepPlan& plan,
                         const ReplayRequest& request, const CompareOptions& options,
                         const WorkContext& context) {
  std::map<std::optional<int>, std::vector<std::size_t>> passes;  // variants by chunk size
  for (std::size_t i = 0; i < plan.variants.size(); ++i)
    passes[plan.variants[i].chunk_size].push_back(i);
  Comparison all;
  for (const auto& [chunk_size, variants] : passes) {
    ReplayRequest pass = request;
    if (chunk_size) pass.chunk_size = chunk_size;
    std::vector<MethodName> methods;
    for (const std::size_t variant : variants) methods.push_back(plan.variants[variant].name);
    Comparison one = compare_methods(session, methods, pass, options, context);
    for (CompareRow& row : one.rows) {
      row.method_idx = variants[row.method_idx];
      row.sweep = plan.variants[row.method_idx].values;
      all.rows.push_back(std::move(row));
    }
    std::move(one.on_other_cells.begin(), one.on_other_cells.end(),
              std::back_inserter(all.on_other_cells));
    std::move(one.no_common_cell.begin(), one.no_common_cell.end(),
              std::back_inserter(all.no_common_cell));
    if (all.notes.empty()) all.notes = std::move(one.notes);
    std::move(one.unavailable.begin(), one.unavailable.end(), std::back_inserter(all.unavailable));
  }
  std::stable_sort(all.rows.begin(), all.rows.end(), [](const CompareRow& a, const CompareRow& b) {
    return a.method_idx < b.method_idx;
  });
  return all;
}

}  // namespace kvloupe::replay
