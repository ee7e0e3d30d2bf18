#include "core/replay/compare.h"

#include "core/selection/selector.h"

#include <utility>

namespace kvloupe::replay {

using selection::MethodSpec;

namespace {

void note_no_common_cell(const std::vector<Averager>& averagers,
                         const std::vector<ReplayResult>& results, trace::Phase phase,
                         Comparison& comparison) {
  Comparison::NoCell none;
  none.phase = phase == trace::Phase::Prefill ? "prefill" : "decode";
  for (const CompareRow& row : comparison.rows)
    if (row.phase == none.phase && row.cells > 0) return;
  bool any = false;
  for (std::size_t i = 0; i < averagers.size(); ++i) {
    any = any || averagers[i].all_cells(phase) > 0;
    const auto places = averagers[i].places(phase);
    if (places && places->empty()) none.dense.push_back(results[i].method);
  }
  if (any) comparison.no_common_cell.push_back(std::move(none));
}

}  // namespace

Comparison compare_methods(const session::TraceSession& session,
                           const std::vector<MethodSpec>& specs, const ReplayRequest& request,
                           const CompareOptions& options, const WorkContext& context) {
  Comparison comparison;
  std::vector<MethodSpec> served;
  std::vector<std::size_t> asked;  // of those served, in `specs`
  std::vector<Averager> averagers;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    ReplayRequest one = request;
    one.spec = specs[i].resolved(session.shape());
    if (auto error = why_unavailable(session, one, context)) {
      comparison.unavailable.push_back({one.spec.canonical(), std::move(*error)});
      continue;
    }
    averagers.emplace_back(one.spec,
                           selection::row_layout(one.spec, session.shape()).q_heads_per_row,
                           session, options.span);
    served.push_back(std::move(one.spec));
    asked.push_back(i);
  }
  if (served.empty()) throw comparison.unavailable.front().error;
  const auto results = replay_methods(
      session, served, request,
      [&](std::size_t method, ReplayCell&& cell) { averagers[method].add(cell); }, context);
  PlacesOf places;
  for (const Averager& averager : averagers) places.push_back(averager.places());
  const Places common = common_places(places);
  const bool alike = options.cells == CellChoice::Common;
  const std::vector<bool> differs = differ_from_most(places);
  const RowOptions row_options{options.weights, alike ? &common : nullptr, options.scopes};
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (CompareRow& row : averagers[i].rows(results[i], row_options)) {
      row.method_idx = asked[i];
      comparison.rows.push_back(std::move(row));
    }
    if (!alike && differs[i]) comparison.on_other_cells.push_back(results[i].method);
  }
  if (alike)
    for (const trace::Phase phase : {trace::Phase::Prefill, trace::Phase::Decode})
      note_no_common_cell(averagers, results, phase, comparison);
  return comparison;
}

}  // namespace kvloupe::replay
