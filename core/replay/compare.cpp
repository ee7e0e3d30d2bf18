#include "core/replay/compare.h"

#include "core/base/error.h"
#include "core/replay/request_checks.h"
#include "core/selection/selector.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace kvloupe::replay {
namespace {

using selection::MethodSpec;

Averager averager_of(const session::TraceSession& session, const MethodChoice& choice,
                     const Counted& counted) {
  return {choice.spec, layout_of(choice, session.info()).q_heads_per_row, session, counted};
}

// One layer at a time: the sets of all of them need not fit into memory.
void measure_run(const session::TraceSession& session, const ReplayRequest& request, int run,
                 MethodCells& measured, const WorkContext& context) {
  std::vector<int> layers = checked_layers_of_run(session, run, request.layers);
  std::int64_t done = 0;
  for (const int layer : layers) {
    ReplayResult result =
        recorded_run(session, run, {layer}, request.chunks, request.want_mass,
                     request.want_output_error, {context.cancel, {}}, request.device);
    for (const ReplayCell& cell : result.cells) measured.averager.add(cell);
    result.cells.clear();
    measured.result = std::move(result);
    context.report(++done, std::ssize(layers), "measuring");
  }
  measured.result.layers = std::move(layers);
}

void note_no_common_cell(const std::vector<MethodCells>& measured, trace::Phase phase,
                         Comparison& comparison) {
  Comparison::NoCell none;
  none.phase = phase == trace::Phase::Prefill ? "prefill" : "decode";
  for (const CompareRow& row : comparison.rows)
    if (row.phase == none.phase && row.cells > 0) return;
  bool any = false;
  for (const MethodCells& method : measured) {
    any = any || method.averager.all_cells(phase) > 0;
    const auto cells = method.averager.cells(phase);
    none.asked = none.asked || cells.has_value();
    if (cells && cells->empty()) none.dense.push_back(method.result.method);
  }
  if (any) comparison.no_common_cell.push_back(std::move(none));
}

}  // namespace

std::vector<MethodCells> measure_methods(const session::TraceSession& session,
                                         const std::vector<MethodChoice>& choices,
                                         const ReplayRequest& request, const Counted& counted,
                                         const WorkContext& context) {
  std::vector<MethodCells> measured;
  std::vector<MethodSpec> anew;
  std::vector<std::size_t> which;  // of those selected anew, in `choices`
  for (std::size_t i = 0; i < choices.size(); ++i) {
    measured.push_back({averager_of(session, choices[i], counted), {}});
    if (choices[i].recorded()) continue;
    anew.push_back(*choices[i].spec);
    which.push_back(i);
  }
  if (!anew.empty()) {
    auto results = replay_methods(
        session, anew, request,
        [&](std::size_t method, ReplayCell&& cell) { measured[which[method]].averager.add(cell); },
        context);
    for (std::size_t i = 0; i < results.size(); ++i)
      measured[which[i]].result = std::move(results[i]);
  }
  for (std::size_t i = 0; i < choices.size(); ++i)
    if (choices[i].recorded()) measure_run(session, request, choices[i].run, measured[i], context);
  return measured;
}

std::optional<Error> why_choice_unavailable(const session::TraceSession& session,
                                            const MethodChoice& choice,
                                            const ReplayRequest& request,
                                            const WorkContext& context) {
  if (!choice.recorded()) {
    ReplayRequest one = request;
    one.spec = *choice.spec;
    return why_unavailable(session, one, context);
  }
  if (request.chunk_size)
    return input_error(fmt::format("run {} cannot be cut into other chunks", choice.run),
                       "it holds what was kept of the trace's own chunks",
                       "leave out --chunk-size, or give the SPEC to select anew");
  try {
    checked_layers_of_run(session, choice.run, request.layers);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

Comparison compare_methods(const session::TraceSession& session,
                           const std::vector<MethodName>& methods, const ReplayRequest& request,
                           const CompareOptions& options, const WorkContext& context) {
  Comparison comparison;
  std::vector<MethodChoice> served;
  std::vector<std::size_t> asked;  // of those served, in `methods`
  for (std::size_t i = 0; i < methods.size(); ++i) {
    MethodChoice choice = choice_of(methods[i], session.info());
    if (auto error = why_choice_unavailable(session, choice, request, context)) {
      comparison.unavailable.push_back({choice.text, std::move(*error)});
      continue;
    }
    served.push_back(std::move(choice));
    asked.push_back(i);
  }
  if (served.empty()) throw comparison.unavailable.front().error;
  const std::vector<MethodCells> measured =
      measure_methods(session, served, request, options.counted, context);
  for (std::size_t i = 0; i < served.size(); ++i)
    if (const auto& layers = measured[i].result.layers;
        served[i].recorded() && request.layers.empty() &&
        layers.size() < session.info().layers.size())
      comparison.notes.push_back(
          fmt::format("run {} has {} of the {} layers: {}{}", served[i].run, layers.size(),
                      session.info().layers.size(), fmt::join(layers, ", "),
                      options.cells == CellChoice::Common ? "; all rows are of these" : ""));
  CellSets cells;
  for (const MethodCells& method : measured) cells.push_back(method.averager.cells());
  const CellSet common = common_cells(cells);
  const bool alike = options.cells == CellChoice::Common;
  const std::vector<bool> differs = differ_from_most(cells);
  const RowOptions row_options{options.weights, alike ? &common : nullptr, options.scopes};
  for (std::size_t i = 0; i < measured.size(); ++i) {
    for (CompareRow& row : measured[i].averager.rows(measured[i].result, row_options)) {
      row.method_idx = asked[i];
      comparison.rows.push_back(std::move(row));
    }
    if (!alike && differs[i]) comparison.on_other_cells.push_back(served[i].text);
  }
  if (alike)
    for (const trace::Phase phase : {trace::Phase::Prefill, trace::Phase::Decode})
      note_no_common_cell(measured, phase, comparison);
  return comparison;
}

}  // namespace kvloupe::replay
